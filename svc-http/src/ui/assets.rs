//! Builds the files of the board: a few files from many sources, with one digest in their addresses, and
//! compressed with gzip on demand.
//!
//! The sources are compiled into the binary. A debug build reads them from the disk instead, so that a reload
//! in the browser shows a change.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use libdeflater::{CompressionLvl, Compressor};
use rust_embed::RustEmbed;
use svc_core::hash::sha256;
use svc_core::{Error, Result};

use super::pack;
use super::shell::{self, DEPTH_MAX};
use super::style;

/// Name of the source of the board's page.
const PAGE_SOURCE: &str = "index.html";
/// Name of the service worker, which has a fixed address because its scope is its folder.
pub(super) const SERVICE_WORKER: &str = "push.js";
/// Name of the web app manifest, which has a fixed address because browsers identify the app by that address.
pub(super) const MANIFEST: &str = "manifest.webmanifest";

/// Number of hexadecimal digits in the digest and in entity tags.
const DIGEST_DIGITS: usize = 12;

#[derive(RustEmbed)]
#[folder = "ui/"]
#[exclude = ".*"]
#[exclude = "*/.*"]
#[exclude = "strings/test.js"]
struct Embedded;

/// A file of the board.
pub(super) struct Asset {
    media_type: &'static str,
    etag_stem: String,
    plain: Bytes,
    gzip: OnceLock<Compression>,
}

/// Pending or finished compression of a file, which results in `None` if the compressed file is not smaller.
type Compression = Shared<BoxFuture<'static, Option<Bytes>>>;

impl Asset {
    fn new(name: &str, plain: Bytes) -> Self {
        Self {
            media_type: media_type_of(name),
            etag_stem: short_hex(&sha256(&plain)),
            plain,
            gzip: OnceLock::new(),
        }
    }

    /// Returns the media type of the file.
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// Returns the entity tag of the uncompressed or the compressed file.
    pub fn etag(&self, is_compressed: bool) -> String {
        format!("\"{}{}\"", self.etag_stem, if is_compressed { "-gzip" } else { "" })
    }

    /// Returns the uncompressed file.
    pub fn plain(&self) -> &Bytes {
        &self.plain
    }

    /// Returns the file compressed with gzip, or `None` if the compressed file is not smaller.
    ///
    /// The file is compressed only once, even if several clients request it at the same time or disconnect
    /// early. Compression runs on a separate thread, because it would delay other requests. If compression
    /// fails, returns `None`.
    pub async fn gzip(&self) -> Option<Bytes> {
        let begun = self.gzip.get_or_init(|| {
            let plain = self.plain.clone();
            let packing = tokio::task::spawn_blocking(move || gzip_if_smaller(&plain));
            packing.map(|packed| packed.ok().flatten()).boxed().shared()
        });
        begun.clone().await
    }
}

/// Compresses a file with gzip, or returns `None` if the compressed file is not smaller.
pub(super) fn gzip_if_smaller(plain: &[u8]) -> Option<Bytes> {
    // If the compressed file does not fit into this buffer, it is not smaller.
    let mut packed = vec![0; plain.len()];
    let length = Compressor::new(CompressionLvl::best()).gzip_compress(plain, &mut packed).ok()?;
    packed.truncate(length);
    (length < plain.len()).then(|| packed.into())
}

/// All files of one version of the board.
pub(super) struct Assets {
    /// Digest of the names and bytes of the sources.
    sources: String,
    /// Digest of the built files, which is part of the files' addresses.
    digest: String,
    files: BTreeMap<String, Asset>,
    /// The board's page for each depth of a screen.
    pages: Vec<Asset>,
}

impl Assets {
    /// Builds all files from the sources and from the generated modules `generated`, which are listed by
    /// name.
    pub fn load(generated: &BTreeMap<&str, String>) -> Result<Self> {
        Self::build(sources(generated))
    }

    /// Builds all files again if a source has changed. Otherwise returns `None`.
    pub fn reload_if_changed(&self, generated: &BTreeMap<&str, String>) -> Result<Option<Self>> {
        let sources = sources(generated);
        (digest(&sources) != self.sources).then(|| Self::build(sources)).transpose()
    }

    fn build(sources: BTreeMap<String, Bytes>) -> Result<Self> {
        let of_sources = digest(&sources);
        let wrong = |wrong: String| Error::internal(format!("the board cannot be sent: {wrong}"));
        let mut scripts = BTreeMap::new();
        let mut sheets = BTreeMap::new();
        let mut files = BTreeMap::new();
        for (name, bytes) in sources {
            let of_kind = match name.rsplit_once('.') {
                Some((_, "js")) => &mut scripts,
                Some((_, "css")) => &mut sheets,
                _ => {
                    files.insert(name, bytes);
                    continue;
                }
            };
            let text = String::from_utf8(bytes.into());
            of_kind.insert(name.clone(), text.map_err(|_| wrong(format!("{name} is no text")))?);
        }
        let made = pack::pack(&scripts).map_err(wrong)?.into_iter();
        let made = made.chain(style::combine(&sheets).map_err(wrong)?);
        files.extend(made.map(|(name, text)| (name, text.into())));
        Self::from_files(files, of_sources)
    }

    fn from_files(mut sent: BTreeMap<String, Bytes>, sources: String) -> Result<Self> {
        let digest = digest(&sent);
        let missing = |name: &str| Error::internal(format!("the board has no {name}, or it is no text"));
        let mut text = |name: &str| {
            let bytes = sent.remove(name)?;
            String::from_utf8(bytes.into()).ok()
        };
        let page = text(PAGE_SOURCE).ok_or_else(|| missing(PAGE_SOURCE))?;
        let manifest = text(MANIFEST).ok_or_else(|| missing(MANIFEST))?;
        let filled = |template: &str, depth| Bytes::from(shell::fill_template(template, depth, &digest));
        let pages = (0..=DEPTH_MAX).map(|depth| Asset::new(PAGE_SOURCE, filled(&page, depth))).collect();
        sent.insert(MANIFEST.to_owned(), filled(&manifest, 0));
        let asset = |(name, bytes): (String, Bytes)| {
            let asset = Asset::new(&name, bytes);
            (name, asset)
        };
        Ok(Self { sources, pages, files: sent.into_iter().map(asset).collect(), digest })
    }

    /// Returns the digest of all files.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the page for a screen that is `depth` folders below the board's folder.
    pub fn page(&self, depth: usize) -> Option<&Asset> {
        self.pages.get(depth)
    }

    /// Returns the file `name`, which has a fixed address.
    pub fn fixed_file(&self, name: &str) -> Option<&Asset> {
        self.files.get(name)
    }

    /// Returns the file `name` if its address contains the digest of all files.
    pub fn file(&self, name: &str) -> Option<&Asset> {
        self.files.get(name).filter(|_| ![SERVICE_WORKER, MANIFEST].contains(&name))
    }
}

/// Returns all sources of the board by name.
fn sources(generated: &BTreeMap<&str, String>) -> BTreeMap<String, Bytes> {
    let mut sources = BTreeMap::new();
    for name in Embedded::iter() {
        // In a debug build, a file may have been deleted since the files were listed.
        let Some(file) = Embedded::get(&name) else { continue };
        let bytes = match file.data {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => bytes.into(),
        };
        sources.insert(name.into_owned(), bytes);
    }
    sources.extend(generated.iter().map(|(name, text)| ((*name).to_owned(), text.clone().into())));
    sources
}

/// Returns the digest of the names and the bytes of files.
fn digest(files: &BTreeMap<String, Bytes>) -> String {
    let mut all = Vec::new();
    for (name, bytes) in files {
        all.extend_from_slice(&sha256(name.as_bytes()));
        all.extend_from_slice(&sha256(bytes));
    }
    short_hex(&sha256(&all))
}

fn short_hex(hash: &[u8]) -> String {
    let digits = hash.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.take(DIGEST_DIGITS).filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

fn media_type_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, kind)| kind) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use libdeflater::Decompressor;
    use svc_core::operation_table;

    use super::super::operations;
    use super::*;

    fn sent(files: &[(&str, &str)]) -> BTreeMap<String, Bytes> {
        let page = "<link href=\"{up}f/{digest}/a.css\">";
        let known = [(PAGE_SOURCE, page), (MANIFEST, "{\"src\": \"f/{digest}/icon.svg\"}")];
        let all = known.iter().chain(files);
        all.map(|(name, text)| ((*name).to_owned(), Bytes::from((*text).to_owned()))).collect()
    }

    fn of(files: BTreeMap<String, Bytes>) -> Result<Assets> {
        Assets::from_files(files, String::new())
    }

    #[test]
    fn the_digest_is_that_of_every_name_and_byte() {
        let of = |files: &[(&str, &str)]| of(sent(files)).unwrap().digest().to_owned();
        let first = of(&[("a.js", "1"), ("b.js", "2")]);
        assert!(first.len() == DIGEST_DIGITS && first.chars().all(|c| c.is_ascii_hexdigit()), "{first}");
        assert_eq!(first, of(&[("b.js", "2"), ("a.js", "1")]));
        for other in [
            &[("a.js", "2"), ("b.js", "1")][..],
            &[("a.js", "1"), ("c.js", "2")],
            &[("a.js", "1b.js2")],
            &[("a.js", "1")],
        ] {
            assert_ne!(first, of(other), "{other:?}");
        }
    }

    #[test]
    fn pages_and_the_manifest_have_the_digest_in_their_addresses() {
        let assets = of(sent(&[])).unwrap();
        let at = |depth: usize| String::from_utf8(assets.page(depth).unwrap().plain().to_vec()).unwrap();
        assert_eq!(at(0), format!("<link href=\"f/{}/a.css\">", assets.digest()));
        assert_eq!(at(2), format!("<link href=\"../../f/{}/a.css\">", assets.digest()));
        assert!(assets.page(DEPTH_MAX + 1).is_none());
        let manifest = String::from_utf8(assets.fixed_file(MANIFEST).unwrap().plain().to_vec()).unwrap();
        assert_eq!(manifest, format!("{{\"src\": \"f/{}/icon.svg\"}}", assets.digest()));
        assert!(assets.file(MANIFEST).is_none() && assets.file(PAGE_SOURCE).is_none());
    }

    #[tokio::test]
    async fn a_file_is_packed_if_that_is_smaller() {
        let long = "word ".repeat(100);
        let assets = of(sent(&[("long.js", &long), ("short.js", "x")])).unwrap();
        let long = assets.file("long.js").unwrap();
        let short = assets.file("short.js").unwrap();
        let packed = long.gzip().await.unwrap();
        assert!(packed.len() < 100 && short.gzip().await.is_none());
        let mut read = vec![0; long.plain().len()];
        Decompressor::new().gzip_decompress(&packed, &mut read).unwrap();
        assert_eq!(read, &long.plain()[..]);
        assert_ne!(long.etag(true), long.etag(false));
    }

    /// A file is compressed for later requests even if the first request is dropped early.
    #[test]
    fn a_file_is_packed_once_and_holds_up_nobody() {
        let long = "word ".repeat(100);
        let assets = of(sent(&[("long.js", &long)])).unwrap();
        let file = assets.file("long.js").unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.max_blocking_threads(1).build().unwrap().block_on(async {
            let (go, held) = std::sync::mpsc::channel::<()>();
            tokio::task::spawn_blocking(move || held.recv());
            assert!(file.gzip().now_or_never().is_none(), "it is packed elsewhere");
            drop(go);
            let all = futures_util::future::join_all((0..100).map(|_| file.gzip())).await;
            let first = all[0].as_ref().unwrap().as_ptr();
            assert!(all.iter().all(|packed| packed.as_ref().unwrap().as_ptr() == first));
        });
    }

    /// Limits the number of files and bytes that a browser fetches, in total and before the first screen.
    ///
    /// The first screen needs the page, the style sheet, and all scripts except the last pack and the
    /// workers.
    #[test]
    fn the_board_is_little() {
        const FIRST_MAX: usize = 90_000;
        const ALL_MAX: usize = 177_000;
        let mut made = operations::generate_modules(&operation_table().unwrap());
        let assets = Assets::load(&made).unwrap();
        assert!(assets.reload_if_changed(&made).unwrap().is_none());
        made.insert(operations::TITLES, "export default {};".to_owned());
        assert!(assets.reload_if_changed(&made).unwrap().is_some());
        let size =
            |asset: &Asset| gzip_if_smaller(asset.plain()).map_or(asset.plain().len(), |packed| packed.len());
        let sizes: BTreeMap<&str, usize> =
            assets.files.iter().map(|(name, asset)| (name.as_str(), size(asset))).collect();
        let names: Vec<&str> = sizes.keys().copied().collect();
        let wanted =
            ["app.js", "css/screens.css", "icon.svg", "main.js", MANIFEST, SERVICE_WORKER, "rest.js"];
        assert_eq!(names, [&wanted[..], &["worker/verify.js"]].concat());
        let page = assets.page(0).map(size).unwrap();
        let first = ["app.js", "css/screens.css", "icon.svg", "main.js", MANIFEST];
        let first = page + first.iter().map(|name| sizes[name]).sum::<usize>();
        assert!(first <= FIRST_MAX, "{first} bytes: {sizes:?}");
        let all = page + sizes.values().sum::<usize>();
        assert!(all <= ALL_MAX, "{all} bytes: {sizes:?}");
    }

    #[test]
    fn without_its_page_there_is_no_board() {
        for name in [PAGE_SOURCE, MANIFEST] {
            let mut sent = sent(&[]);
            sent.remove(name);
            assert!(of(sent).is_err(), "{name}");
        }
    }
}
