//! SCIM filters (RFC 7644, section 3.4.2.2): parsing filters, and comparing them with resources.
//!
//! The text of a filter is limited in length and nesting before it is parsed. The parsed filter is then bound
//! to the attributes of a kind of resource. The filter may use every attribute that RFC 7643 or an extension
//! defines; an unknown attribute is rejected instead of silently matching nothing. An attribute that is not
//! stored has no value: such an attribute equals nothing, differs from everything, and is not present. A
//! person's only email address is the user name, which is primary and of the type `work`.
//!
//! A test whether an attribute such as the id or the user name equals a value becomes the parameter of an SQL
//! statement ([`Filter::lookup_key`]). All other tests are evaluated here, so that both database engines
//! agree on the equality of texts.

use scim_v2::filter as syntax;
use scim_v2::filter::{AttrExp, AttrPath, CompValue, CompareOp, ValFilter};
use uuid::Uuid;

use super::attributes::{Attribute, AttributeValue, PathMeaning, ResourceKind};
use crate::error::Result;
use crate::id::MemberId;
use crate::identity::members::normalise_user_name;
use crate::identity::scim::Fault;
use crate::limits::{SCIM_FILTER_DEPTH_MAX, SCIM_FILTER_MAX};
use crate::time::Time;

/// A filter whose tests refer to the attributes of one kind of resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    Present(Attribute),
    Compare(Attribute, CompareOp, Operand),
    /// Matches no resource, for example because only another kind has the attribute.
    NoMatch,
}

/// Value that a filter compares an attribute with.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Flag(bool),
    Text(String),
    Time(Time),
}

/// A resource that a filter can be compared with.
pub(super) trait FilterTarget {
    fn value(&self, attribute: Attribute) -> AttributeValue<'_>;
}

/// Value of an attribute that all matches of a filter share. The database finds candidates by this value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LookupKey<'a> {
    Id(Option<Uuid>),
    UserName(&'a str),
    ExternalId(&'a str),
    Member(Option<MemberId>),
}

/// Fails if the text of a filter or path is too long or too deeply nested.
pub(super) fn check_bounds(text: &str, fault: Fault) -> Result<()> {
    if text.chars().count() > SCIM_FILTER_MAX {
        return Err(fault.error(format!("expected at most {SCIM_FILTER_MAX} characters")));
    }
    let mut depth = 0_usize;
    let mut deepest = 0_usize;
    let mut in_text = false;
    let mut escaped = false;
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_text => escaped = true,
            '"' => in_text = !in_text,
            '(' | '[' if !in_text => depth = depth.saturating_add(1),
            ')' | ']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > SCIM_FILTER_DEPTH_MAX {
        return Err(fault.error(format!("nested deeper than {SCIM_FILTER_DEPTH_MAX} levels")));
    }
    Ok(())
}

/// Parses the filter of a search, and returns one bound filter for each of the searched `kinds`.
pub(super) fn parse_filter(text: &str, kinds: &[ResourceKind]) -> Result<Vec<Filter>> {
    check_bounds(text, Fault::InvalidFilter)?;
    let parsed: syntax::Filter = to_rfc_grammar(text).parse().map_err(|_| {
        Fault::InvalidFilter.error("`filter`: expected a filter such as userName eq \"ada@corp.example\"")
    })?;
    kinds.iter().map(|kind| FilterBinder { kind: *kind, kinds }.bind(&parsed)).collect()
}

/// Binds the filter in a PATCH path such as `members[value eq "1"]` to the ids of a group's members.
pub(super) fn bind_member_filter(filter: &ValFilter) -> Result<Filter> {
    let binder = FilterBinder { kind: ResourceKind::Group, kinds: &[ResourceKind::Group] };
    let members = AttrPath { uri: None, name: "members".to_owned(), sub_attr: None };
    binder.bind_value_filter(&members, filter)
}

/// Binds a parsed filter to the attributes of one kind of resource.
struct FilterBinder<'a> {
    kind: ResourceKind,
    /// All kinds of resources that the search covers.
    kinds: &'a [ResourceKind],
}

impl FilterBinder<'_> {
    fn bind(&self, parsed: &syntax::Filter) -> Result<Filter> {
        match parsed {
            syntax::Filter::Attr(test) => self.bind_test(test),
            syntax::Filter::ValuePath(path) => self.bind_value_filter(&path.attr, &path.filter),
            syntax::Filter::Not(inner) => Ok(negate(self.bind(inner)?)),
            syntax::Filter::And(items) => {
                items.iter().map(|item| self.bind(item)).collect::<Result<_>>().map(Filter::All)
            }
            syntax::Filter::Or(items) => {
                items.iter().map(|item| self.bind(item)).collect::<Result<_>>().map(Filter::Any)
            }
        }
    }

    /// Binds the filter of a value path, such as `emails[type eq "work"]`. The tests in brackets refer to
    /// sub-attributes of `parent`.
    fn bind_value_filter(&self, parent: &AttrPath, parsed: &ValFilter) -> Result<Filter> {
        let inner = self.bind_inner_filter(parent, parsed)?;
        Ok(match (self.kind.path_meaning(parent), inner) {
            (Some(PathMeaning::Stored(_)), inner @ (Filter::Present(_) | Filter::NoMatch)) => inner,
            (Some(PathMeaning::Stored(_)), inner @ Filter::Compare(_, CompareOp::Eq, _)) => inner,
            // The filter matches only if the attribute has a value.
            (Some(PathMeaning::Stored(attribute)), inner) => {
                Filter::All(vec![Filter::Present(attribute), inner])
            }
            _ => Filter::NoMatch,
        })
    }

    fn bind_inner_filter(&self, parent: &AttrPath, parsed: &ValFilter) -> Result<Filter> {
        let all = |items: &[ValFilter]| -> Result<Vec<Filter>> {
            items.iter().map(|item| self.bind_inner_filter(parent, item)).collect()
        };
        match parsed {
            ValFilter::Attr(AttrExp::Present(path)) => {
                self.bind_test(&AttrExp::Present(sub_attribute_path(parent, path)?))
            }
            ValFilter::Attr(AttrExp::Comparison(path, op, value)) => self.bind_test(&AttrExp::Comparison(
                sub_attribute_path(parent, path)?,
                op.clone(),
                value.clone(),
            )),
            ValFilter::Not(inner) => Ok(negate(self.bind_inner_filter(parent, inner)?)),
            ValFilter::And(items) => all(items).map(Filter::All),
            ValFilter::Or(items) => all(items).map(Filter::Any),
        }
    }

    fn bind_test(&self, test: &AttrExp) -> Result<Filter> {
        let (path, compared) = match test {
            AttrExp::Present(path) => (path, None),
            AttrExp::Comparison(path, op, value) => (path, Some((op, value))),
        };
        let Some(named) = self.kind.path_meaning(path) else {
            if self.kinds.iter().any(|kind| kind.path_meaning(path).is_some()) {
                return Ok(Filter::NoMatch);
            }
            return Err(Fault::InvalidFilter.error("`filter`: names an attribute that there is not"));
        };
        let of = match named {
            PathMeaning::NotStored => None,
            PathMeaning::Stored(of) | PathMeaning::Address(of) | PathMeaning::Constant(of, _) => Some(of),
        };
        let present = || of.map_or(Filter::NoMatch, Filter::Present);
        match (named, compared) {
            (_, None | Some((CompareOp::Ne, CompValue::Null))) => Ok(present()),
            (_, Some((CompareOp::Eq, CompValue::Null))) => Ok(negate(present())),
            (PathMeaning::NotStored, Some((CompareOp::Ne, _))) => Ok(negate(Filter::NoMatch)),
            (PathMeaning::NotStored, Some(_)) => Ok(Filter::NoMatch),
            (PathMeaning::Stored(of), Some((op, value))) => {
                Ok(Filter::Compare(of, op.clone(), bind_operand(of, op, value)?))
            }
            (PathMeaning::Address(of), Some((op, value))) => {
                let operand = match bind_operand(of, op, value)? {
                    Operand::Text(text) => Operand::Text(last_segment(&text).to_owned()),
                    other => other,
                };
                Ok(Filter::Compare(of, op.clone(), operand))
            }
            // A value differs from a constant if it does not equal the constant, even if the attribute has no
            // value.
            (PathMeaning::Constant(of, held), Some((CompareOp::Ne, value))) => {
                Ok(negate(bind_constant_test(of, &held, &CompareOp::Eq, value)))
            }
            (PathMeaning::Constant(of, held), Some((op, value))) => {
                Ok(bind_constant_test(of, &held, op, value))
            }
        }
    }
}

fn negate(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

/// Binds a comparison with a constant, such as the type `User`, that accompanies each value of an attribute.
fn bind_constant_test(
    attribute: Attribute,
    constant: &AttributeValue<'_>,
    op: &CompareOp,
    value: &CompValue,
) -> Filter {
    let flag = |text: &str| match text.to_ascii_lowercase().as_str() {
        "true" => Operand::Flag(true),
        "false" => Operand::Flag(false),
        _ => Operand::Text(text.to_owned()),
    };
    let operand = match (constant, value) {
        (_, CompValue::True) => Operand::Flag(true),
        (_, CompValue::False) => Operand::Flag(false),
        (AttributeValue::Flag(_), CompValue::Str(text)) => flag(text),
        (_, CompValue::Str(text)) => Operand::Text(text.clone()),
        _ => return Filter::NoMatch,
    };
    if comparison_holds(attribute, op, constant, &operand) {
        Filter::Present(attribute)
    } else {
        Filter::NoMatch
    }
}

/// Returns the last segment of a resource's URL, which is the resource's id.
fn last_segment(address: &str) -> &str {
    address.rsplit('/').next().unwrap_or(address)
}

/// Rewrites a filter to the grammar of RFC 7644, from which some clients deviate.
///
/// Entra uses the path of a PATCH operation in a filter: `emails[type eq "work"].value eq "a"` becomes
/// `emails[(type eq "work") and value eq "a"]`. The grammar does not allow `$` in a name, although `$ref` is
/// a name, and allows literals only in lower case.
fn to_rfc_grammar(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text.trim();
    let mut opened = None;
    while let Some(c) = rest.chars().next() {
        let token = first_token(rest);
        rest = rest.get(token.len()..).unwrap_or_default();
        match c {
            '[' => opened = Some(written.len()),
            ']' if rest.starts_with('.') => {
                let (test, behind) = split_test(rest.get(1..).unwrap_or_default());
                if let (Some(at), false) = (opened, test.is_empty()) {
                    written.insert(at.saturating_add(1), '(');
                    written.push_str(") and ");
                    written.push_str(&to_rfc_grammar(test));
                    rest = behind;
                }
            }
            _ => {}
        }
        match token.to_ascii_lowercase().as_str() {
            literal @ ("true" | "false" | "null") => written.push_str(literal),
            "$ref" => written.push_str("ref"),
            _ => written.push_str(token),
        }
    }
    written
}

/// Returns the first token of a filter: a quoted text, a word, or any other single character.
fn first_token(text: &str) -> &str {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
    let mut escaped = true;
    let end = match text.chars().next() {
        Some('"') => {
            let closes = |(at, c): (usize, char)| {
                let is_end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                is_end.then(|| at.saturating_add(1))
            };
            text.char_indices().find_map(closes)
        }
        Some(first) if is_of_word(first) => text.find(|c| !is_of_word(c)),
        Some(other) => Some(other.len_utf8()),
        None => None,
    };
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// Splits a filter after the first test, such as `value eq "a"` or `value pr`.
fn split_test(text: &str) -> (&str, &str) {
    let mut end = 0_usize;
    let mut words = 0;
    while let Some(rest) = text.get(end..).filter(|rest| !rest.is_empty()) {
        let token = first_token(rest);
        let is_word = token.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '"' | '-' | '$'));
        let is_space = token.chars().all(char::is_whitespace);
        if !is_word && !is_space && token != "." {
            break;
        }
        end = end.saturating_add(token.len());
        words += usize::from(is_word);
        if words == 3 || (words == 2 && token.eq_ignore_ascii_case("pr")) {
            break;
        }
    }
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// Returns the path of the sub-attribute `sub` within the attribute `parent`.
fn sub_attribute_path(parent: &AttrPath, sub: &AttrPath) -> Result<AttrPath> {
    if parent.sub_attr.is_some() || sub.sub_attr.is_some() || sub.uri.is_some() {
        return Err(Fault::InvalidFilter.error("`filter`: names an attribute that there is not"));
    }
    Ok(AttrPath { uri: parent.uri.clone(), name: parent.name.clone(), sub_attr: Some(sub.name.clone()) })
}

/// Returns the operand to compare an attribute with. Fails if the attribute cannot be compared with the
/// value.
fn bind_operand(attribute: Attribute, op: &CompareOp, value: &CompValue) -> Result<Operand> {
    let unfit = || Fault::InvalidFilter.error("`filter`: compares an attribute with what it never is");
    let only_equal = matches!(op, CompareOp::Eq | CompareOp::Ne);
    match (attribute, value) {
        (Attribute::Active, CompValue::True) if only_equal => Ok(Operand::Flag(true)),
        (Attribute::Active, CompValue::False) if only_equal => Ok(Operand::Flag(false)),
        (Attribute::Active, CompValue::Str(text)) if only_equal => match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Operand::Flag(true)),
            "false" => Ok(Operand::Flag(false)),
            _ => Err(unfit()),
        },
        (Attribute::Active, _) => Err(unfit()),
        (Attribute::Created | Attribute::LastModified, CompValue::Str(text)) => {
            let time = serde_json::from_value(text.as_str().into()).map_err(|_| unfit())?;
            match op {
                CompareOp::Co | CompareOp::Sw | CompareOp::Ew => Err(unfit()),
                _ => Ok(Operand::Time(time)),
            }
        }
        (Attribute::Created | Attribute::LastModified, _) => Err(unfit()),
        (Attribute::UserName, CompValue::Str(text)) => {
            Ok(Operand::Text(normalise_user_name(text).unwrap_or_else(|| text.clone())))
        }
        (_, CompValue::Str(text)) => Ok(Operand::Text(text.clone())),
        _ => Err(unfit()),
    }
}

impl Filter {
    /// Returns the key that all matching resources share, or `None` if matches need not share a key.
    pub fn lookup_key(&self) -> Option<LookupKey<'_>> {
        match self {
            Self::Compare(attribute, CompareOp::Eq, Operand::Text(text)) => match attribute {
                Attribute::Id => Some(LookupKey::Id(text.parse().ok())),
                Attribute::UserName => Some(LookupKey::UserName(text)),
                Attribute::ExternalId => Some(LookupKey::ExternalId(text)),
                Attribute::Members => Some(LookupKey::Member(text.parse::<Uuid>().ok().map(MemberId::from))),
                _ => None,
            },
            Self::All(items) => items.iter().find_map(Self::lookup_key),
            _ => None,
        }
    }

    /// Returns whether the filter tests the members of a group.
    pub fn uses_members(&self) -> bool {
        match self {
            Self::All(items) | Self::Any(items) => items.iter().any(Self::uses_members),
            Self::Not(inner) => inner.uses_members(),
            Self::Present(attribute) | Self::Compare(attribute, ..) => *attribute == Attribute::Members,
            Self::NoMatch => false,
        }
    }

    /// Returns whether a resource matches the filter.
    pub fn matches(&self, resource: &dyn FilterTarget) -> bool {
        match self {
            Self::All(items) => items.iter().all(|item| item.matches(resource)),
            Self::Any(items) => items.iter().any(|item| item.matches(resource)),
            Self::Not(inner) => !inner.matches(resource),
            Self::Present(attribute) => match resource.value(*attribute) {
                AttributeValue::Nothing => false,
                AttributeValue::Ids(ids) => !ids.is_empty(),
                AttributeValue::Flag(_) | AttributeValue::Text(_) | AttributeValue::Time(_) => true,
            },
            Self::Compare(attribute, op, operand) => {
                comparison_holds(*attribute, op, &resource.value(*attribute), operand)
            }
            Self::NoMatch => false,
        }
    }
}

/// Compares the value of an attribute with an operand. A missing value equals nothing and differs from
/// everything.
fn comparison_holds(
    attribute: Attribute,
    op: &CompareOp,
    value: &AttributeValue<'_>,
    operand: &Operand,
) -> bool {
    match (value, operand) {
        (AttributeValue::Flag(value), Operand::Flag(flag)) => ordered_comparison_holds(op, value, flag),
        (AttributeValue::Time(value), Operand::Time(time)) => ordered_comparison_holds(op, value, time),
        (AttributeValue::Text(value), Operand::Text(text)) => {
            text_comparison_holds(attribute, op, value, text)
        }
        (AttributeValue::Ids(ids), Operand::Text(text)) if *op == CompareOp::Ne => {
            ids.iter().all(|id| text_comparison_holds(attribute, op, &id.to_string(), text))
        }
        (AttributeValue::Ids(ids), Operand::Text(text)) => {
            ids.iter().any(|id| text_comparison_holds(attribute, op, &id.to_string(), text))
        }
        _ => *op == CompareOp::Ne,
    }
}

fn text_comparison_holds(attribute: Attribute, op: &CompareOp, value: &str, operand: &str) -> bool {
    if attribute == Attribute::ExternalId {
        return exact_comparison_holds(op, value, operand);
    }
    exact_comparison_holds(op, &value.to_lowercase(), &operand.to_lowercase())
}

fn exact_comparison_holds(op: &CompareOp, value: &str, operand: &str) -> bool {
    match op {
        CompareOp::Co => value.contains(operand),
        CompareOp::Sw => value.starts_with(operand),
        CompareOp::Ew => value.ends_with(operand),
        _ => ordered_comparison_holds(op, value, operand),
    }
}

fn ordered_comparison_holds<T: PartialOrd + ?Sized>(op: &CompareOp, value: &T, operand: &T) -> bool {
    match op {
        CompareOp::Eq => value == operand,
        CompareOp::Ne => value != operand,
        CompareOp::Gt => value > operand,
        CompareOp::Ge => value >= operand,
        CompareOp::Lt => value < operand,
        CompareOp::Le => value <= operand,
        CompareOp::Co | CompareOp::Sw | CompareOp::Ew => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Code;
    use crate::strangers;

    /// A resource for tests, with a value for some attributes.
    struct Probe {
        name: &'static str,
        external: Option<&'static str>,
        members: Vec<MemberId>,
    }

    impl FilterTarget for Probe {
        fn value(&self, attribute: Attribute) -> AttributeValue<'_> {
            match attribute {
                Attribute::UserName | Attribute::DisplayName => AttributeValue::Text(self.name.into()),
                Attribute::ExternalId => {
                    self.external.map_or(AttributeValue::Nothing, |id| AttributeValue::Text(id.into()))
                }
                Attribute::Active => AttributeValue::Flag(true),
                Attribute::Created => AttributeValue::Time(Time::from_micros(1_000_000)),
                Attribute::Members => AttributeValue::Ids(&self.members),
                Attribute::Id | Attribute::LastModified | Attribute::ResourceType => AttributeValue::Nothing,
            }
        }
    }

    fn matched(text: &str, kind: ResourceKind) -> Option<bool> {
        let members = vec![MemberId::from(Uuid::from_u128(1))];
        let probe = Probe { name: "ada@corp.example", external: Some("X1"), members };
        parse_filter(text, &[kind]).ok().map(|found| found[0].matches(&probe))
    }

    #[test]
    fn filters_match_as_the_rfc_says() {
        for (text, wanted) in [
            ("userName eq \"ADA@corp.example\"", Some(true)),
            ("userName eq \"ＡＤＡ@corp.example\"", Some(true)),
            ("urn:ietf:params:scim:schemas:core:2.0:User:userName sw \"ada\"", Some(true)),
            ("USERNAME Eq \"ada\"", Some(false)),
            ("userName co \"CORP\" and active eq true", Some(true)),
            ("userName ew \"x\" or active eq \"True\"", Some(true)),
            ("not (active eq true)", Some(false)),
            ("externalId eq \"x1\"", Some(false)),
            ("externalId eq \"X1\"", Some(true)),
            ("externalId pr", Some(true)),
            ("externalId eq null", Some(false)),
            ("id ne \"1\"", Some(true)),
            ("meta.created lt \"1971-01-01T00:00:00Z\"", Some(true)),
            ("meta.created gt \"1971-01-01T00:00:00Z\"", Some(false)),
            ("userName gt \"a\" and (userName lt \"b\" or active eq false)", Some(true)),
            ("active gt true", None),
            ("active eq 1", None),
            ("meta.created eq \"yesterday\"", None),
            ("meta.created co \"1970-01-01T00:00:00Z\"", None),
            ("emails.value eq \"ada@corp.example\"", Some(true)),
            ("emails.value eq \"a\"", Some(false)),
            ("emails[type eq \"work\"]", Some(true)),
            ("emails[type ne \"work\"]", Some(false)),
            ("emails[type eq \"work\"].value eq \"ADA@corp.example\"", Some(true)),
            ("emails[ type eq \"a].b\" ].value pr or active eq FALSE", Some(false)),
            ("emails[primary eq \"True\"]", Some(true)),
            ("title eq \"a\"", Some(false)),
            ("title ne \"a\"", Some(true)),
            ("title pr", Some(false)),
            ("name[not (familyName eq \"a\")]", Some(false)),
            ("urn:other:userName eq \"a\"", Some(false)),
            ("urn:ietf:params:scim:schemas:core:2.0:Group:members pr", None),
            ("shoeSize eq 1", None),
            ("title.x eq 1", None),
            ("userName eq ada", None),
            ("userName", None),
            ("", None),
        ] {
            assert_eq!(matched(text, ResourceKind::User), wanted, "{text}");
        }
        let one = Uuid::from_u128(1);
        for (text, wanted) in [
            (format!("members eq \"{one}\""), Some(true)),
            (format!("members[value eq \"{one}\"]"), Some(true)),
            (format!("members.value ne \"{one}\""), Some(false)),
            ("members[display eq \"a\"]".to_owned(), Some(false)),
            (format!("members[type eq \"User\" and value eq \"{one}\"]"), Some(true)),
            (format!("members.$ref eq \"https://svc.example/scim/v2/Users/{one}\""), Some(true)),
            ("displayName sw \"ada\"".to_owned(), Some(true)),
            ("active eq true".to_owned(), None),
        ] {
            assert_eq!(matched(&text, ResourceKind::Group), wanted, "{text}");
        }
    }

    #[test]
    fn what_clients_write_differently_is_written_as_the_grammar_has_it() {
        for (text, wanted) in [
            ("userName eq \"a].b True\"", "userName eq \"a].b True\""),
            ("a[b eq \"c\"].d eq \"e\"", "a[(b eq \"c\") and d eq \"e\"]"),
            ("x pr and a[b eq 1].d pr or c pr", "x pr and a[(b eq 1) and d pr] or c pr"),
            ("(a[b eq TRUE].$ref eq \"]\")", "(a[(b eq true) and ref eq \"]\"])"),
            ("a]. b", "a]. b"),
            ("a[b pr].", "a[b pr]."),
            ("\"open", "\"open"),
            (" é[\\ ", "é[\\"),
        ] {
            assert_eq!(to_rfc_grammar(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_search_of_all_kinds_knows_the_attributes_of_each() {
        let found = parse_filter("active eq true", &[ResourceKind::User, ResourceKind::Group]).unwrap();
        assert_eq!(found[1], Filter::NoMatch);
        assert!(parse_filter("nick eq \"a\"", &[ResourceKind::User, ResourceKind::Group]).is_err());
    }

    #[test]
    fn an_equality_is_a_key_only_where_all_must_have_it() {
        let key =
            |text: &str| parse_filter(text, &[ResourceKind::User]).unwrap().remove(0).lookup_key().is_some();
        for (text, wanted) in [
            ("userName eq \"a\"", true),
            ("active eq true and userName eq \"a\"", true),
            ("userName eq \"a\" or userName eq \"b\"", false),
            ("not (userName eq \"a\")", false),
            ("userName sw \"a\"", false),
        ] {
            assert_eq!(key(text), wanted, "{text}");
        }
    }

    #[test]
    fn length_and_depth_are_bounded_before_anything_is_parsed() {
        let nested = |depth: usize| format!("{}active eq true{}", "(".repeat(depth), ")".repeat(depth));
        let long = |length: usize| format!("userName eq \"{}\"", "(".repeat(length));
        for (text, fits) in [
            (nested(SCIM_FILTER_DEPTH_MAX), true),
            (nested(SCIM_FILTER_DEPTH_MAX + 1), false),
            (long(SCIM_FILTER_MAX - 14), true),
            (long(SCIM_FILTER_MAX - 13), false),
        ] {
            let found = parse_filter(&text, &[ResourceKind::User]).map(drop).map_err(|error| error.code());
            assert_eq!(found, if fits { Ok(()) } else { Err(Code::Malformed) }, "{text}");
        }
    }

    const PIECES: [&str; 29] = [
        "userName",
        "members",
        "active",
        "displayName",
        " eq ",
        " ne ",
        " co ",
        " pr",
        " and ",
        " or ",
        "not ",
        "(",
        ")",
        "[",
        "]",
        "\"a\"",
        "\"",
        "\\",
        "true",
        "null",
        "1",
        ".",
        ":",
        "value",
        " ",
        "  ",
        "\u{0}",
        "é",
        "userName eq \"a\"",
    ];

    proptest! {
        #![proptest_config(strangers::inputs())]

        /// Any text is either rejected or parsed as a filter that can be compared with a resource.
        #[test]
        fn anything_is_a_filter_or_refused(sent in strangers::texts(&PIECES)) {
            let probe = Probe { name: "a", external: None, members: Vec::new() };
            for text in &sent {
                match parse_filter(text, &[ResourceKind::User, ResourceKind::Group]) {
                    Ok(found) => prop_assert!(found.iter().filter(|one| one.matches(&probe)).count() <= 2),
                    Err(error) => prop_assert_eq!(error.code(), Code::Malformed, "{}", text),
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// A quoted text is compared as it was sent, whatever characters it contains.
        #[test]
        fn a_text_is_never_syntax(text in "[^\u{0}]{0,20}") {
            let written = serde_json::to_string(&text).unwrap();
            let filter = format!("externalId eq {written}");
            if filter.chars().count() <= SCIM_FILTER_MAX {
                let found = parse_filter(&filter, &[ResourceKind::User]).unwrap();
                prop_assert_eq!(found[0].lookup_key(), Some(LookupKey::ExternalId(&text)));
            }
        }
    }
}
