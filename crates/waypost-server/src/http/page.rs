//! The dashboard: a page with its modules, embedded in the program.
//!
//! The files are the same for every user and contain no data, so they need no token. The page reads all data from the API,
//! which does. Addresses of files contain a hash of all of them: a browser keeps a file until the program changes.

use std::sync::OnceLock;

use axum::body::Body;
use axum::extract::{Path, Request};
use axum::http::{HeaderValue, Response, StatusCode, header};
use sha2::{Digest as _, Sha256};
use waypost::tokens::hex;
use waypost_core::Kind;

use super::answer;

/// The first part of the paths of all files.
pub(super) const ASSETS: &str = "/assets/";
/// Bytes of the hash in addresses.
const HASH_BYTES: usize = 8;

/// A file of the page.
struct File {
    name: &'static str,
    content: &'static str,
}

macro_rules! files {
    ($($name:literal,)*) => {
        &[$(File { name: $name, content: include_str!(concat!("../../dashboard/", $name)) },)*]
    };
}

const INDEX: &str = include_str!("../../dashboard/index.html");

static FILES: &[File] = files![
    "actions.js",
    "api.js",
    "app.js",
    "dialogs.js",
    "html.js",
    "icon.svg",
    "live.js",
    "router.js",
    "screens/issues.js",
    "screens/lists.js",
    "screens/now.js",
    "screens/task.js",
    "screens/workflows.js",
    "screens/workspaces.js",
    "style.css",
    "ui.js",
    "vendor/hooks.js",
    "vendor/htm.js",
    "vendor/preact.js",
    "vendor/signals-core.js",
    "vendor/signals.js",
];

/// Returns whether a path belongs to the page.
pub(super) fn is_page(path: &str) -> bool {
    path == "/" || path.starts_with(ASSETS)
}

/// Answers with the page.
pub(super) async fn index(request: Request) -> Response<Body> {
    let page = INDEX.replace("{assets}", &format!("{ASSETS}{}", version()));
    file(&request, "text/html; charset=utf-8", page.into(), "no-cache")
}

/// Answers with a file of the page.
pub(super) async fn asset(Path(path): Path<String>, request: Request) -> Response<Body> {
    let name = path.split_once('/').filter(|(hash, _)| *hash == version()).map(|(_, name)| name);
    match name.and_then(|name| FILES.iter().find(|file| file.name == name)) {
        Some(found) => {
            file(&request, content_type(found.name), found.content.into(), "public, max-age=31536000, immutable")
        }
        None => answer::refusal(404, Kind::NotFound, "no such file", &["reload the page: the server has changed"]),
    }
}

fn file(request: &Request, content_type: &'static str, content: Body, caching: &'static str) -> Response<Body> {
    let tag = HeaderValue::from_str(&format!("\"{}\"", version())).ok();
    let is_known = tag.is_some() && request.headers().get(header::IF_NONE_MATCH) == tag.as_ref();
    let mut response = answer::text(content_type, if is_known { Body::empty() } else { content });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.extend(tag.map(|tag| (header::ETAG, tag)));
    response
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        _ => "image/svg+xml",
    }
}

/// Returns the hash of all files.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let mut digest = Sha256::new();
        for text in FILES.iter().flat_map(|file| [file.name, file.content]).chain([INDEX]) {
            digest.update(text.len().to_be_bytes());
            digest.update(text);
        }
        hex(&digest.finalize()[..HASH_BYTES])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole page, uncompressed: it loads at once even on a slow network.
    const MAX_BYTES: usize = 120 * 1024;

    #[test]
    fn the_whole_page_is_small() {
        let size = FILES.iter().map(|file| file.content.len()).sum::<usize>() + INDEX.len();
        assert!(size <= MAX_BYTES, "{size} bytes");
    }

    #[test]
    fn vendored_modules_have_the_hashes_that_are_listed() {
        let listed = include_str!("../../dashboard/vendor/README.md");
        let vendored: Vec<_> = FILES.iter().filter(|file| file.name.starts_with("vendor/")).collect();
        assert_eq!(vendored.len(), 5);
        for file in vendored {
            let name = file.name.trim_start_matches("vendor/");
            let row = listed.lines().find(|line| line.starts_with(&format!("| `{name}`"))).unwrap();
            let hash = hex(&Sha256::digest(file.content));
            assert!(row.ends_with(&format!("| `{hash}` |")), "{name} has the hash {hash}");
        }
    }

    #[test]
    fn every_module_that_is_imported_is_embedded_and_nothing_is_inline() {
        for file in FILES.iter().filter(|file| content_type(file.name).starts_with("text/javascript")) {
            let dir = file.name.rsplit_once('/').map_or("", |(dir, _)| dir);
            for part in file.content.split("from").skip(1) {
                let Some(path) = part.trim_start().strip_prefix(['\'', '"']) else { continue };
                let Some(path) = path.split(['\'', '"']).next().filter(|path| path.starts_with('.')) else { continue };
                let name = match path.strip_prefix("../") {
                    Some(name) => name.to_owned(),
                    None if dir.is_empty() => path.trim_start_matches("./").to_owned(),
                    None => format!("{dir}/{}", path.trim_start_matches("./")),
                };
                assert!(FILES.iter().any(|file| file.name == name), "{} imports {path}", file.name);
            }
        }
        assert!(!INDEX.contains("style=") && !INDEX.contains("<script>") && !INDEX.contains("<style"), "{INDEX}");
        for unsafe_word in ["innerHTML", "dangerouslySetInnerHTML", "insertAdjacentHTML", "eval("] {
            let own = FILES.iter().filter(|file| !file.name.starts_with("vendor/"));
            assert!(own.into_iter().all(|file| !file.content.contains(unsafe_word)), "{unsafe_word}");
        }
    }
}
