//! The Accept header: which of the media types that a response can have its client prefers.

use hyper::HeaderMap;
use hyper::header::ACCEPT;

/// The media types that a client accepts.
pub(crate) struct Accepted<'a>(Vec<Range<'a>>);

impl<'a> Accepted<'a> {
    /// Reads the headers of a request. What cannot be read matches nothing.
    pub fn of(headers: &'a HeaderMap) -> Self {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        Self(accepted.flat_map(|value| value.split(',')).map(Range::read).collect())
    }

    /// Returns the weight of a media type: that of the most specific matching range, or 0 if none matches.
    pub fn weight(&self, kind: &str, subtype: &str) -> f32 {
        let named = |wanted: (&str, &str)| {
            let same = |range: &&Range<'_>| {
                range.kind.eq_ignore_ascii_case(wanted.0) && range.subtype.eq_ignore_ascii_case(wanted.1)
            };
            self.0.iter().find(same).map(|range| range.weight)
        };
        named((kind, subtype)).or_else(|| named((kind, "*"))).or_else(|| named(("*", "*"))).unwrap_or(0.0)
    }
}

impl Accepted<'_> {
    /// Returns whether a media type is accepted by its own name.
    pub fn names(&self, kind: &str, subtype: &str) -> bool {
        let named = |range: &Range<'_>| {
            range.weight > 0.0
                && range.kind.eq_ignore_ascii_case(kind)
                && range.subtype.eq_ignore_ascii_case(subtype)
        };
        self.0.iter().any(named)
    }
}

/// One media range of an Accept header.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    weight: f32,
}

impl<'a> Range<'a> {
    fn read(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next().and_then(|range| range.split_once('/')).unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
        Self { kind, subtype, weight: weight.unwrap_or(1.0) }
    }
}
