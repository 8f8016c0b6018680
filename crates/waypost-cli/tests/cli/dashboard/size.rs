//! The page is sent compressed, and is small.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use crate::serving::{Reply, Server};

/// The maximum size of the whole front end.
const MAX_BYTES: usize = 120 * 1024;

/// Returns the answer to a request for a file, with the bytes of its body.
fn get(server: &Server, path: &str, accepted: Option<&str>) -> (Reply, Vec<u8>) {
    let ask = server.ask("GET", path).with("Connection", "close");
    let ask = accepted.into_iter().fold(ask, |ask, accepted| ask.with("Accept-Encoding", accepted));
    let mut answer = Vec::new();
    let _ = ask.open().read_to_end(&mut answer).unwrap();
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    (Reply::read(&answer), answer.split_off(body))
}

fn decompress(bytes: &[u8]) -> Vec<u8> {
    let mut gzip =
        Command::new("gzip").args(["-d", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = gzip.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes).unwrap());
    let output = gzip.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Returns the addresses of all files, from the page and from the modules that import others.
fn files(server: &Server, page: &str) -> BTreeSet<String> {
    let named = |text: &str| -> Vec<String> {
        let parts = text.split(['"', '\'', '`']);
        let is_file =
            |part: &&str| [".js", ".css", ".svg"].iter().any(|end| part.ends_with(end)) && !part.contains([' ', '\\']);
        parts.filter(is_file).map(str::to_owned).collect()
    };
    let mut found = BTreeSet::new();
    let mut next: Vec<String> = named(page).into_iter().filter(|path| path.starts_with("/assets/")).collect();
    while let Some(path) = next.pop() {
        if !found.insert(path.clone()) || path.rsplit('.').next() != Some("js") {
            continue;
        }
        let text = server.get(&path).body;
        let dir = path.rsplit_once('/').unwrap().0;
        let imported = text.split(" from").skip(1).filter_map(|part| named(part.split(';').next()?).into_iter().next());
        for name in
            imported.chain(text.split("import\"").skip(1).filter_map(|part| Some(part.split('"').next()?.to_owned())))
        {
            next.push(match name.strip_prefix("../") {
                Some(name) => format!("{}/{name}", dir.rsplit_once('/').unwrap().0),
                None => format!("{dir}/{}", name.trim_start_matches("./")),
            });
        }
    }
    found
}

#[test]
fn the_page_is_sent_compressed_to_clients_that_accept_it_and_the_whole_of_it_takes_at_most_120_kib() {
    let server = Server::start(&[]);
    let (plain, page) = get(&server, "/", None);
    assert_eq!((plain.status, plain.headers.get("content-encoding")), (200, None));
    let files = files(&server, &String::from_utf8(page).unwrap());
    assert!(files.len() >= 25, "{files:?}");
    let (mut total, mut uncompressed) = (0, 0);
    for path in files.iter().map(String::as_str).chain(["/"]) {
        let (plain, content) = get(&server, path, None);
        let (packed, bytes) = get(&server, path, Some("br;q=1, gzip;q=0.8"));
        assert_eq!((plain.status, packed.status), (200, 200), "{path}");
        assert_eq!(packed.headers["content-encoding"], "gzip", "{path}");
        assert_eq!(packed.headers["content-type"], plain.headers["content-type"], "{path}");
        assert_eq!(packed.headers["content-length"], bytes.len().to_string(), "{path}");
        for reply in [&plain, &packed] {
            assert_eq!(reply.headers["vary"], "Accept-Encoding", "{path}");
        }
        assert_eq!(decompress(&bytes), content, "{path}");
        assert_ne!(plain.headers["etag"], packed.headers["etag"], "{path}");
        let tag = &packed.headers["etag"];
        let known = server.ask("GET", path).with("Accept-Encoding", "gzip").with("If-None-Match", tag).send();
        assert_eq!((known.status, known.body.as_str()), (304, ""), "{path}");
        let (refused, same) = get(&server, path, Some("gzip;q=0"));
        assert_eq!((refused.headers.get("content-encoding"), same), (None, content.clone()), "{path}");
        total += bytes.len();
        uncompressed += content.len();
    }
    assert!(total <= MAX_BYTES && total < uncompressed / 2, "{total} bytes of {uncompressed}");
}
