//! Lists and searches of SCIM resources: pages of users, of groups, or of both.
//!
//! A page begins at the requested index of the complete list, so each request counts the resources before
//! that index. Each request also counts all matches, because the response contains their number. If a filter
//! requires that the `id`, the `userName`, the `externalId` or a member of a group equals a value, an index
//! finds the resources. The database evaluates filters of users that use only `active` and `userName`. Any
//! other filter is compared with each resource, a thousand at a time; the search fails with `tooMany` after
//! 10,000 resources, or 10,000 members of groups. A page ends early, as RFC 7644 allows, if the groups on the
//! page together have more members than one group can have.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::attributes::{AttributeNames, AttributeSelection, ResourceKind};
use super::filter::{Filter, LookupKey, parse_filter};
use super::group_rows::{self, GroupRow};
use super::groups::GroupWithMembers;
use super::resource::{Group, List, ResourceView, User, UserOrGroup};
use super::selection;
use super::values::SchemaList;
use crate::error::Result;
use crate::id::{GroupId, MemberId};
use crate::identity::members::{self, Person};
use crate::identity::scim::Fault;
use crate::limits::{SCIM_COUNT_MAX, SCIM_GROUP_MEMBERS_MAX, SCIM_SCAN_MAX};
use crate::op::Read;
use crate::text::Count;

/// Returns the SCIM resources that match a filter, oldest first.
///
/// Sorting is not supported: `sortBy` and `sortOrder` are ignored.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListResources {
    /// A SCIM filter. Default: all resources match.
    filter: Option<String>,
    /// Index of the first result in the list of all matches, counted from 1. Default: 1.
    start_index: Option<LenientNumber>,
    /// Maximum number of results, up to 200. With 0, the server only counts the matches. Default: 200.
    count: Option<LenientNumber>,
    /// Names of the attributes to return, separated by commas. Default: all attributes.
    attributes: Option<AttributeNames>,
    /// Names of attributes to omit from the response, separated by commas.
    excluded_attributes: Option<AttributeNames>,
    /// Ignored, because sorting is not supported.
    #[serde(rename = "sortBy")]
    _sort_by: Option<String>,
    /// Ignored, because sorting is not supported.
    #[serde(rename = "sortOrder")]
    _sort_order: Option<String>,
}

/// Returns the SCIM resources that match a filter, oldest first.
///
/// A search is the same as a list, except that the parameters are in the body instead of the query.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SearchResources {
    /// Schema URNs of the request. The service ignores them.
    #[serde(rename = "schemas")]
    _schemas: Option<SchemaList>,
    /// A SCIM filter. Default: all resources match.
    filter: Option<String>,
    /// Index of the first result in the list of all matches, counted from 1. Default: 1.
    start_index: Option<LenientNumber>,
    /// Maximum number of results, up to 200. With 0, the server only counts the matches. Default: 200.
    count: Option<LenientNumber>,
    /// Names of the attributes to return. Default: all attributes.
    attributes: Option<AttributeNames<true>>,
    /// Names of attributes to omit from the response.
    excluded_attributes: Option<AttributeNames<true>>,
    /// Ignored, because sorting is not supported.
    #[serde(rename = "sortBy")]
    _sort_by: Option<String>,
    /// Ignored, because sorting is not supported.
    #[serde(rename = "sortOrder")]
    _sort_order: Option<String>,
}

/// An index in a list, or a number of results. RFC 7644 allows values below the sensible minimum.
type LenientNumber = Count<{ -JSON_INTEGER_MAX }, JSON_INTEGER_MAX>;
/// Largest integer that every JSON parser preserves.
const JSON_INTEGER_MAX: i64 = (1 << 53) - 1;

pub(super) fn list_users(cx: &Read<'_>, input: &ListResources) -> Result<List<ResourceView<User>>> {
    input.search()?.run(cx, &[ResourceKind::User])
}

pub(super) fn list_groups(cx: &Read<'_>, input: &ListResources) -> Result<List<ResourceView<Group>>> {
    input.search()?.run(cx, &[ResourceKind::Group])
}

pub(super) fn search_users(cx: &Read<'_>, input: &SearchResources) -> Result<List<ResourceView<User>>> {
    input.search()?.run(cx, &[ResourceKind::User])
}

pub(super) fn search_groups(cx: &Read<'_>, input: &SearchResources) -> Result<List<ResourceView<Group>>> {
    input.search()?.run(cx, &[ResourceKind::Group])
}

pub(super) fn search_all(cx: &Read<'_>, input: &SearchResources) -> Result<List<ResourceView<UserOrGroup>>> {
    input.search()?.run(cx, &[ResourceKind::User, ResourceKind::Group])
}

impl ListResources {
    fn search(&self) -> Result<SearchParams<'_>> {
        let attributes =
            AttributeSelection::new(self.attributes.as_ref(), self.excluded_attributes.as_ref())?;
        Ok(SearchParams::new(self.filter.as_deref(), self.start_index, self.count, attributes))
    }
}

impl SearchResources {
    fn search(&self) -> Result<SearchParams<'_>> {
        let attributes =
            AttributeSelection::new(self.attributes.as_ref(), self.excluded_attributes.as_ref())?;
        Ok(SearchParams::new(self.filter.as_deref(), self.start_index, self.count, attributes))
    }
}

/// Parameters of a list or a search.
struct SearchParams<'a> {
    filter: Option<&'a str>,
    /// Index of the first result in the list of all matches, counted from 1.
    start: i64,
    /// Maximum number of results.
    count: usize,
    /// Attributes to return.
    attributes: AttributeSelection,
}

impl<'a> SearchParams<'a> {
    fn new(
        filter: Option<&'a str>,
        start: Option<LenientNumber>,
        count: Option<LenientNumber>,
        attributes: AttributeSelection,
    ) -> Self {
        let count = count.map_or(i64::MAX, LenientNumber::get).max(0);
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(SCIM_COUNT_MAX);
        Self { filter, start: start.map_or(1, LenientNumber::get).max(1), count, attributes }
    }

    /// Runs the search in the resources of these kinds, and returns the requested page.
    fn run<T>(&self, cx: &Read<'_>, kinds: &[ResourceKind]) -> Result<List<ResourceView<T>>> {
        let filters = self.filter.map(|text| parse_filter(text, kinds)).transpose()?;
        let mut page = PageBuilder {
            skip: self.start.saturating_sub(1),
            remaining: self.count,
            total: 0,
            resources: Vec::new(),
        };
        for (place, kind) in kinds.iter().enumerate() {
            let filter = filters.as_ref().and_then(|filters| filters.get(place));
            match kind {
                ResourceKind::User => find_users(cx, filter, &mut page)?,
                ResourceKind::Group => find_groups(cx, filter, &mut page)?,
            }
        }
        let resources = self.reduce_to_selected(cx, page.resources)?;
        Ok(List::of(resources, self.start, page.total))
    }

    /// Returns the found resources, reduced to the requested attributes.
    fn reduce_to_selected<T>(
        &self,
        cx: &Read<'_>,
        resources: Vec<ListedResource>,
    ) -> Result<Vec<ResourceView<T>>> {
        let mut shown = Vec::with_capacity(resources.len());
        let mut left = i64::try_from(SCIM_GROUP_MEMBERS_MAX).unwrap_or(i64::MAX);
        for resource in resources {
            shown.push(match resource {
                ListedResource::User(person) => ResourceView::of(User::of(person), &self.attributes)?,
                ListedResource::Group(mut group) => {
                    if self.attributes.includes("members") {
                        group.members = group_rows::first_members(cx, group.row.id, left.saturating_add(1))?;
                        left = left.saturating_sub(i64::try_from(group.members.len()).unwrap_or(i64::MAX));
                    }
                    if left < 0 {
                        break;
                    }
                    ResourceView::of(group.into_resource(), &self.attributes)?
                }
            });
        }
        Ok(shown)
    }
}

/// A user or a group on a page of a list.
enum ListedResource {
    User(Person),
    Group(GroupWithMembers),
}

/// Collects the resources of a page, and counts all matches.
struct PageBuilder {
    /// Number of matches to skip before the first result.
    skip: i64,
    /// Number of results that still fit on the page.
    remaining: usize,
    /// Number of matches so far, including skipped ones and ones after the page.
    total: i64,
    resources: Vec<ListedResource>,
}

impl PageBuilder {
    /// Counts a match, and adds it if it is on this page.
    fn add_match(&mut self, resource: ListedResource) {
        self.total = self.total.saturating_add(1);
        if self.skip > 0 {
            self.skip = self.skip.saturating_sub(1);
        } else if self.remaining > 0 {
            self.remaining = self.remaining.saturating_sub(1);
            self.resources.push(resource);
        }
    }

    /// Counts `count` matches, and reads the ones on this page with `read`.
    ///
    /// The arguments of `read` are the number of matches to skip and the maximum number to return.
    fn add_all(
        &mut self,
        count: i64,
        read: impl FnOnce(i64, i64) -> Result<Vec<ListedResource>>,
    ) -> Result<()> {
        self.total = self.total.saturating_add(count);
        if self.remaining > 0 && self.skip < count {
            let found = read(self.skip, i64::try_from(self.remaining).unwrap_or(i64::MAX))?;
            self.remaining = self.remaining.saturating_sub(found.len());
            self.resources.extend(found);
        }
        self.skip = self.skip.saturating_sub(count).max(0);
        Ok(())
    }
}

/// Maximum number of resources that one statement reads to compare them with a filter.
const BATCH_ROWS: i64 = 1000;

/// One more than the maximum number of resources that one search may compare with a filter.
const SCAN_MAX_PLUS_ONE: i64 = SCIM_SCAN_MAX + 1;

/// Returns the error for a filter that would have to be compared with too many resources.
fn too_many_error() -> crate::Error {
    Fault::TooMany.error(format!("the filter would be compared with more than {SCIM_SCAN_MAX} resources"))
}

/// Adds the users that match the filter to the page.
fn find_users(cx: &Read<'_>, filter: Option<&Filter>, page: &mut PageBuilder) -> Result<()> {
    let Some(filter) = filter else {
        return page.add_all(members::count_people(cx)?, |skip, limit| {
            Ok(members::people_page(cx, skip, limit)?.into_iter().map(ListedResource::User).collect())
        });
    };
    if matches!(filter, Filter::NoMatch) {
        return Ok(());
    }
    let one = |person: Option<Person>| person.into_iter().collect::<Vec<_>>();
    let keyed = match filter.lookup_key() {
        Some(LookupKey::Id(id)) => {
            one(id.map(|id| members::find_person(cx, MemberId::from(id))).transpose()?.flatten())
        }
        Some(LookupKey::UserName(name)) => one(members::find_person_by_user_name(cx, name)?),
        Some(LookupKey::ExternalId(id)) => members::people_by_external_id(cx, id, SCAN_MAX_PLUS_ONE)?,
        Some(LookupKey::Member(_)) | None => {
            if let Some(wanted) = selection::people_condition(filter) {
                return page.add_all(members::count_matching_people(cx, &wanted)?, |skip, limit| {
                    let found = members::matching_people(cx, &wanted, skip, limit)?;
                    Ok(found.into_iter().map(ListedResource::User).collect())
                });
            }
            return scan_rows(
                |after| members::people_after(cx, after, BATCH_ROWS),
                |person| person.lsn,
                |people| {
                    let found = people.into_iter().filter(|person| filter.matches(person));
                    found.for_each(|person| page.add_match(ListedResource::User(person)));
                    Ok(())
                },
            );
        }
    };
    if keyed.len() >= usize::try_from(SCAN_MAX_PLUS_ONE).unwrap_or(usize::MAX) {
        return Err(too_many_error());
    }
    keyed
        .into_iter()
        .filter(|person| filter.matches(person))
        .for_each(|one| page.add_match(ListedResource::User(one)));
    Ok(())
}

/// Adds the groups that match the filter to the page.
fn find_groups(cx: &Read<'_>, filter: Option<&Filter>, page: &mut PageBuilder) -> Result<()> {
    let Some(filter) = filter else {
        return page.add_all(group_rows::count_groups(cx)?, |skip, limit| {
            let rows = group_rows::groups_page(cx, skip, limit)?.into_iter();
            Ok(rows.map(|row| ListedResource::Group(GroupWithMembers { row, members: Vec::new() })).collect())
        });
    };
    let mut left = SCIM_SCAN_MAX;
    let compares_members = filter.uses_members();
    let mut compare = |rows: Vec<GroupRow>| {
        let members =
            if compares_members { group_rows::members_of_groups(cx, &rows, left)? } else { Vec::new() };
        left = left.saturating_sub(i64::try_from(members.len()).unwrap_or(i64::MAX));
        if compares_members && left <= 0 {
            return Err(too_many_error());
        }
        let mut of_groups: HashMap<GroupId, Vec<MemberId>> = HashMap::new();
        for (group, member) in members {
            of_groups.entry(group).or_default().push(member);
        }
        for row in rows {
            let group = GroupWithMembers { members: of_groups.remove(&row.id).unwrap_or_default(), row };
            if filter.matches(&group) {
                page.add_match(ListedResource::Group(group));
            }
        }
        Ok(())
    };
    match filter.lookup_key() {
        Some(LookupKey::Id(id)) => {
            let found = id.map(|id| group_rows::find_group(cx, GroupId::from(id))).transpose()?;
            compare(found.flatten().into_iter().collect())
        }
        Some(LookupKey::ExternalId(id)) => {
            compare(group_rows::groups_by_external_id(cx, id, SCAN_MAX_PLUS_ONE)?)
        }
        Some(LookupKey::Member(Some(member))) => {
            let found = group_rows::groups_with_member(cx, member, SCAN_MAX_PLUS_ONE)?;
            if !matches!(filter, Filter::Compare(..)) {
                return compare(found);
            }
            let groups = found.into_iter().map(|row| GroupWithMembers { row, members: Vec::new() });
            groups.for_each(|group| page.add_match(ListedResource::Group(group)));
            Ok(())
        }
        Some(LookupKey::Member(None)) => Ok(()),
        Some(LookupKey::UserName(_)) | None => {
            scan_rows(|after| group_rows::groups_after(cx, after, BATCH_ROWS), |row| row.lsn, compare)
        }
    }
}

/// Reads all rows and passes them to `process_batch`, a thousand at a time. Fails with `tooMany` if there are
/// too many rows.
fn scan_rows<T>(
    read: impl Fn(i64) -> Result<Vec<T>>,
    position: impl Fn(&T) -> i64,
    mut process_batch: impl FnMut(Vec<T>) -> Result<()>,
) -> Result<()> {
    let mut after = 0;
    let mut compared = 0_i64;
    loop {
        let rows = read(after)?;
        let Some(last) = rows.last() else { return Ok(()) };
        (after, compared) = (position(last), compared.saturating_add(BATCH_ROWS));
        if compared > SCIM_SCAN_MAX {
            return Err(too_many_error());
        }
        process_batch(rows)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_ends_at_its_limit() {
        let scanned = |all: i64| {
            let mut seen = 0_i64;
            let read = |after: i64| Ok((after + 1..=all.min(after + BATCH_ROWS)).collect::<Vec<i64>>());
            let outcome = scan_rows(
                read,
                |row| *row,
                |rows| {
                    seen += i64::try_from(rows.len()).unwrap();
                    Ok(())
                },
            );
            (outcome.is_ok(), seen)
        };
        assert_eq!(scanned(0), (true, 0));
        assert_eq!(scanned(1500), (true, 1500));
        assert_eq!(scanned(SCIM_SCAN_MAX), (true, SCIM_SCAN_MAX));
        assert!(!scanned(SCIM_SCAN_MAX + 1).0);
    }
}
