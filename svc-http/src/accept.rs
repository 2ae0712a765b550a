//! Parses the Accept header, to choose the media type of a response.

use hyper::HeaderMap;
use hyper::header::ACCEPT;

/// Media types that a client accepts, each with a weight.
pub(crate) struct AcceptedTypes<'a>(Vec<MediaRange<'a>>);

impl<'a> AcceptedTypes<'a> {
    /// Parses the Accept headers of a request. An invalid media range matches no media type.
    pub fn from_headers(headers: &'a HeaderMap) -> Self {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        Self(accepted.flat_map(|value| value.split(',')).map(MediaRange::parse).collect())
    }

    /// Returns the weight (`q`) of the most specific media range that matches a media type, or 0 if none
    /// matches.
    pub fn weight(&self, kind: &str, subtype: &str) -> f32 {
        let named = |wanted: (&str, &str)| {
            let same = |range: &&MediaRange<'_>| {
                range.kind.eq_ignore_ascii_case(wanted.0) && range.subtype.eq_ignore_ascii_case(wanted.1)
            };
            self.0.iter().find(same).map(|range| range.weight)
        };
        named((kind, subtype)).or_else(|| named((kind, "*"))).or_else(|| named(("*", "*"))).unwrap_or(0.0)
    }
}

impl AcceptedTypes<'_> {
    /// Returns whether the client lists exactly this media type with a weight above 0. Wildcards do not
    /// count.
    pub fn has_exact_type(&self, kind: &str, subtype: &str) -> bool {
        let named = |range: &MediaRange<'_>| {
            range.weight > 0.0
                && range.kind.eq_ignore_ascii_case(kind)
                && range.subtype.eq_ignore_ascii_case(subtype)
        };
        self.0.iter().any(named)
    }
}

/// One media range of an Accept header.
struct MediaRange<'a> {
    kind: &'a str,
    subtype: &'a str,
    weight: f32,
}

impl<'a> MediaRange<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next().and_then(|range| range.split_once('/')).unwrap_or_default();
        Self { kind, subtype, weight: parse_weight(parts) }
    }
}

/// Returns the weight in the parameter `q` of a header item, or 1 if the item has no valid `q`.
pub(crate) fn parse_weight<'a>(mut parameters: impl Iterator<Item = &'a str>) -> f32 {
    let of = |parameter: &str| {
        let (name, value) = parameter.split_once('=')?;
        if name.trim().eq_ignore_ascii_case("q") { value.trim().parse().ok() } else { None }
    };
    parameters.find_map(of).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_read_however_it_is_written() {
        for (sent, wanted) in [
            ("text/html", 1.0),
            ("text/html;q=0.5", 0.5),
            ("text/html; level=1 ; Q = 0", 0.0),
            ("text/html;q=x", 1.0),
            ("*/*;Q=0.1, text/html;Q=0.2", 0.2),
            ("application/json", 0.0),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, sent.parse().unwrap());
            assert_eq!(AcceptedTypes::from_headers(&headers).weight("text", "html"), wanted, "{sent}");
        }
    }
}
