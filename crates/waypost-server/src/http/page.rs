//! The dashboard: a page with its modules, embedded in the program.
//!
//! The files are the same for every user and contain no data, so they need no token. The page reads all data from the API,
//! which does. Addresses of files contain a hash of all of them: a browser keeps a file until the program changes. Files are
//! compressed for clients that accept it, each once.

use std::io::Write as _;
use std::sync::OnceLock;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Request};
use axum::http::{HeaderValue, Response, StatusCode, header};
use flate2::Compression;
use flate2::write::GzEncoder;
use waypost_core::Kind;
use waypost_core::digest::{hex, sha256};

use super::answer;

/// The first part of the paths of all files.
pub(super) const ASSETS: &str = "/assets/";
/// Bytes of the hash in addresses.
const HASH_BYTES: usize = 8;
/// How long browsers keep a file whose address has a hash.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

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

const FILES: &[File] = files![
    "actions.js",
    "api.js",
    "app.js",
    "attention.js",
    "dialogs.js",
    "graph.js",
    "html.js",
    "icon.svg",
    "list.js",
    "live.js",
    "palette.js",
    "router.js",
    "scope.js",
    "screens/issues.js",
    "screens/jobs.js",
    "screens/lists.js",
    "screens/messages.js",
    "screens/now.js",
    "screens/task.js",
    "screens/workflow.js",
    "screens/workflows.js",
    "screens/workspaces.js",
    "session.js",
    "style.css",
    "ui.js",
    "vendor/hooks.js",
    "vendor/htm.js",
    "vendor/preact.js",
    "vendor/signals-core.js",
    "vendor/signals.js",
    "waterfall.js",
];

/// Returns whether a path belongs to the page.
pub(super) fn is_page(path: &str) -> bool {
    path == "/" || path.starts_with(ASSETS)
}

/// Answers with the page.
pub(super) async fn index(request: Request) -> Response<Body> {
    static PAGE: OnceLock<Content> = OnceLock::new();
    let page = PAGE.get_or_init(|| {
        Content::of(INDEX.replace("{assets}", &format!("{ASSETS}{}", version())), "text/html; charset=utf-8")
    });
    file(&request, page, "no-cache")
}

/// Answers with a file of the page.
pub(super) async fn asset(Path(path): Path<String>, request: Request) -> Response<Body> {
    let name = path.split_once('/').filter(|(hash, _)| *hash == version()).map(|(_, name)| name);
    let found = name.and_then(|name| CONTENTS.iter().zip(FILES).find(|(_, file)| file.name == name));
    match (found, name.and_then(icon_with_count)) {
        (Some((content, found)), _) => {
            let content = content.get_or_init(|| Content::of(found.content, content_type(found.name)));
            file(&request, content, FOR_EVER)
        }
        (None, Some(icon)) => file(&request, &Content::of(icon, content_type(".svg")), FOR_EVER),
        (None, None) => {
            answer::refusal(404, Kind::NotFound, "no such file", &["reload the page: the server has changed"])
        }
    }
}

/// Returns the icon with a count: `icon-1.svg` to `icon-9.svg`, and `icon-many.svg`. The policy of the page forbids it to draw
/// one itself.
fn icon_with_count(name: &str) -> Option<String> {
    let count = match name.strip_prefix("icon-")?.strip_suffix(".svg")? {
        "many" => '+',
        count => Some(count).filter(|count| count.len() == 1)?.chars().find(|digit| ('1'..='9').contains(digit))?,
    };
    let badge = format!(
        "<circle cx=\"11\" cy=\"11\" r=\"5\" fill=\"#c2410c\"/><text x=\"11\" y=\"14\" font-family=\"sans-serif\" \
         font-size=\"8.5\" font-weight=\"700\" text-anchor=\"middle\" fill=\"#fff\">{count}</text></svg>"
    );
    Some(include_str!("../../dashboard/icon.svg").trim_end().replace("</svg>", &badge))
}

/// The content of a file, as it is and compressed.
struct Content {
    media_type: &'static str,
    plain: Bytes,
    compressed: Bytes,
}

impl Content {
    fn of(text: impl Into<Bytes>, media_type: &'static str) -> Content {
        let plain = text.into();
        Content { media_type, compressed: compress(&plain).into(), plain }
    }
}

fn compress(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).and_then(|()| encoder.finish()).expect("writing to memory cannot fail")
}

/// The contents of [`FILES`], made when a browser asks for them.
static CONTENTS: [OnceLock<Content>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];

/// Returns whether the client accepts a compressed answer.
fn accepts_gzip(request: &Request) -> bool {
    let accepted = request.headers().get_all(header::ACCEPT_ENCODING).iter();
    let accepted: Vec<&str> = accepted.filter_map(|value| value.to_str().ok()).collect();
    let weight_of = |wanted: &str| {
        accepted.iter().flat_map(|value| value.split(',')).find_map(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
            let weight = weight.trim().trim_start_matches(['q', 'Q']).trim_start_matches('=');
            name.trim().eq_ignore_ascii_case(wanted).then(|| weight.trim().parse().unwrap_or(0.0_f32))
        })
    };
    weight_of("gzip").or_else(|| weight_of("*")).is_some_and(|weight| weight > 0.0)
}

fn file(request: &Request, content: &Content, caching: &'static str) -> Response<Body> {
    let is_compressed = accepts_gzip(request);
    // Each form of a file has its own tag.
    let form = if is_compressed { "-gzip" } else { "" };
    let tag = HeaderValue::from_str(&format!("\"{}{form}\"", version())).ok();
    let is_known = tag.is_some() && request.headers().get(header::IF_NONE_MATCH) == tag.as_ref();
    let body = if is_compressed { &content.compressed } else { &content.plain };
    let body = if is_known { Body::empty() } else { Body::from(body.clone()) };
    let mut response = answer::text(content.media_type, body);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if is_compressed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
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
        let texts = FILES.iter().flat_map(|file| [file.name, file.content]).chain([INDEX]);
        hex(&sha256(texts.collect::<Vec<_>>().join("\0"))[..HASH_BYTES])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_icon_has_a_count_from_one_to_nine_and_many() {
        assert!(icon_with_count("icon-3.svg").unwrap().ends_with(">3</text></svg>"));
        assert!(icon_with_count("icon-many.svg").unwrap().ends_with(">+</text></svg>"));
        for name in ["icon.svg", "icon-0.svg", "icon-10.svg", "icon-<.svg", "icon-.svg", "app.js"] {
            assert_eq!(icon_with_count(name), None, "{name}");
        }
    }

    #[test]
    fn a_compressed_answer_is_sent_only_to_clients_that_accept_it() {
        let request = |accepted: &[&str]| {
            let request = Request::builder();
            let add = |request: axum::http::request::Builder, value: &&str| request.header("Accept-Encoding", *value);
            accepts_gzip(&accepted.iter().fold(request, add).body(Body::empty()).unwrap())
        };
        for accepted in [&["gzip"][..], &["br, GZIP;q=0.5"], &["*"], &["br", "gzip ; q=1"], &["gzip, *;q=0"]] {
            assert!(request(accepted), "{accepted:?}");
        }
        for refused in [&[][..], &[""], &["br"], &["gzip;q=0"], &["*;q=0"], &["gzip;q=0.000, *"], &["xgzip"]] {
            assert!(!request(refused), "{refused:?}");
        }
    }

    #[test]
    fn vendored_modules_have_the_hashes_that_are_listed() {
        let listed = include_str!("../../dashboard/vendor/README.md");
        let vendored: Vec<_> = FILES.iter().filter(|file| file.name.starts_with("vendor/")).collect();
        assert_eq!(vendored.len(), 5);
        for file in vendored {
            let name = file.name.trim_start_matches("vendor/");
            let row = listed.lines().find(|line| line.starts_with(&format!("| `{name}`"))).unwrap();
            let hash = hex(&sha256(file.content));
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
