//! Builds the guide: the pages that `docs/SUMMARY.md` lists, as HTML with a side bar and a search, and checks their links.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde_json::{Value, json};

use crate::tidy::{find_files, read};
use crate::{Result, target};

mod html;

pub(crate) use html::escape;

/// The directory of the pages.
const DOCS: &str = "docs";
/// The list of the pages, in their order.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The pages in the root of the repository, which the guide contains too.
const ROOT_PAGES: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("search.js");

/// A line of the summary.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    /// The title of a part.
    Part(String),
    /// A page: its depth in the list, its title, and its path in the repository.
    Page { depth: usize, title: String, path: String },
}

/// A page, as far as links are concerned.
#[derive(Debug, Default)]
struct Page {
    /// The ids of its headings.
    anchors: BTreeSet<String>,
    /// The addresses of its links and images.
    links: Vec<String>,
}

/// Checks that the summary lists every page once, and that every link between pages leads somewhere.
pub(crate) fn check(root: &Path, complaints: &mut Vec<String>) -> Result {
    let pages = pages(root)?;
    let listed: Vec<String> = summary(&read(&root.join(SUMMARY))?)?.into_iter().filter_map(Entry::path).collect();
    for (number, path) in listed.iter().enumerate() {
        if !root.join(path).is_file() {
            complaints.push(format!("{SUMMARY}: {path} does not exist"));
        } else if listed[..number].contains(path) {
            complaints.push(format!("{SUMMARY}: {path} is listed twice"));
        }
    }
    for path in pages.keys().filter(|path| path.starts_with(DOCS) && !listed.contains(path) && *path != SUMMARY) {
        complaints.push(format!("{SUMMARY} does not list {path}"));
    }
    let parsed: BTreeMap<&String, Page> = pages.iter().map(|(path, text)| (path, Page::parse(text))).collect();
    for (path, page) in &parsed {
        for link in page.links.iter().filter(|link| !is_remote(link)) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { (*path).clone() } else { resolve(path, file) };
            let found = match parsed.get(&file) {
                Some(found) if anchor.is_empty() || found.anchors.contains(anchor) => continue,
                Some(_) => format!("has no heading #{anchor}"),
                None if !root.join(&file).is_file() => "does not exist".to_owned(),
                None if path.starts_with(DOCS) && !file.starts_with(DOCS) => "is not part of the guide".to_owned(),
                None => continue,
            };
            complaints.push(format!("{path} links to {link}: {file} {found}"));
        }
    }
    Ok(())
}

/// Builds the guide into `target/book/`, after checking its links.
pub(crate) fn build(root: &Path) -> Result {
    let mut complaints = Vec::new();
    check(root, &mut complaints)?;
    if !complaints.is_empty() {
        return Err(complaints.join("\n"));
    }
    let out = target().join("book");
    let pages = pages(root)?;
    let mut entries = summary(&read(&root.join(SUMMARY))?)?;
    entries.push(Entry::Part("Repository".to_owned()));
    entries.extend(ROOT_PAGES.iter().map(|path| Entry::Page {
        depth: 0,
        title: heading(pages.get(*path).map_or("", String::as_str)).unwrap_or_else(|| (*path).to_owned()),
        path: (*path).to_owned(),
    }));
    let order: Vec<(&String, &String)> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Page { title, path, .. } => Some((title, path)),
            Entry::Part(_) => None,
        })
        .collect();
    let mut index: Vec<Value> = Vec::new();
    for (number, (title, path)) in order.iter().enumerate() {
        let text = pages.get(*path).ok_or_else(|| format!("{path} is no page"))?;
        let address = address(path);
        let body = html::body(text, |link| rewrite(path, link));
        index.extend(sections(text).into_iter().map(|(anchor, heading, text)| {
            let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
            json!([format!("{address}{anchor}"), title, heading, text])
        }));
        let beside = |other: Option<usize>, word: &str| {
            let (title, path) = other.and_then(|other| order.get(other))?;
            let href = relative(&address, &self::address(path));
            Some(format!("<a rel=\"{word}\" href=\"{href}\">{}</a>", html::escape(title)))
        };
        let page = html::page(&html::Frame {
            title,
            body: &body,
            side: &side(&entries, path, &address),
            up: &"../".repeat(address.matches('/').count()),
            before: &beside(number.checked_sub(1), "prev").unwrap_or_default(),
            after: &beside(Some(number + 1), "next").unwrap_or_default(),
        });
        write(&out.join(&address), page.as_bytes())?;
    }
    let first = order.first().map(|(_, path)| address(path)).ok_or("the summary lists no page")?;
    let to_first =
        format!("<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={first}\">");
    write(&out.join("index.html"), to_first.as_bytes())?;
    write(&out.join("style.css"), STYLE.as_bytes())?;
    write(&out.join("search.js"), SCRIPT.as_bytes())?;
    // A script, and not JSON: browsers do not fetch files beside a page that was opened from a disk.
    write(&out.join("index.js"), format!("window.BOOK = {};\n", Value::from(index)).as_bytes())?;
    for extension in ["json", "svg", "png"] {
        let mut files = Vec::new();
        find_files(&root.join(DOCS), extension, &mut files)?;
        for file in files {
            let name = file.strip_prefix(root.join(DOCS)).unwrap_or(&file);
            write(&out.join(name), &fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?)?;
        }
    }
    println!("Wrote {} pages to {}", order.len(), out.join("index.html").display());
    Ok(())
}

/// Returns the text of every page, by its path in the repository.
fn pages(root: &Path) -> Result<BTreeMap<String, String>> {
    let mut files: Vec<PathBuf> = ROOT_PAGES.iter().map(|name| root.join(name)).collect();
    find_files(&root.join(DOCS), "md", &mut files)?;
    let name = |file: &Path| file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned();
    files.iter().map(|file| Ok((name(file), read(file)?))).collect()
}

/// Reads the summary.
fn summary(text: &str) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && *line != "# Summary") {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let item = line.trim_start().strip_prefix("- ").unwrap_or(line);
        if let Some(part) = item.strip_prefix("# ") {
            entries.push(Entry::Part(part.to_owned()));
        } else {
            let link = item.strip_prefix('[').and_then(|item| item.strip_suffix(')'));
            let (title, path) =
                link.and_then(|link| link.split_once("](")).ok_or_else(|| format!("{SUMMARY}: {line:?} is no link"))?;
            entries.push(Entry::Page { depth, title: title.to_owned(), path: format!("{DOCS}/{path}") });
        }
    }
    Ok(entries)
}

impl Entry {
    fn path(self) -> Option<String> {
        match self {
            Entry::Page { path, .. } => Some(path),
            Entry::Part(_) => None,
        }
    }
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Page::default();
        for event in Parser::new_ext(text, options()) {
            if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
                page.links.push(dest_url.into_string());
            }
        }
        page.anchors = sections(text).into_iter().map(|(anchor, ..)| anchor).collect();
        page
    }
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS
}

/// Returns the title of a page.
fn heading(text: &str) -> Option<String> {
    sections(text).into_iter().map(|(_, heading, _)| heading).find(|heading| !heading.is_empty())
}

/// Returns the sections of a page: the id of the heading, its text, and the text below it.
fn sections(text: &str) -> Vec<(String, String, String)> {
    let mut sections = vec![(String::new(), String::new(), String::new())];
    let mut ids = Slugs::default();
    let mut is_heading = false;
    for event in Parser::new_ext(text, options()) {
        let last = sections.len() - 1;
        match event {
            Event::Start(Tag::Heading { .. }) => {
                is_heading = true;
                sections.push(Default::default());
            }
            Event::End(TagEnd::Heading(_)) => {
                is_heading = false;
                sections[last].0 = ids.of(&sections[last].1);
            }
            Event::Text(text) | Event::Code(text) if is_heading => sections[last].1.push_str(&text),
            Event::Text(text) | Event::Code(text) => sections[last].2.push_str(&text),
            Event::SoftBreak | Event::HardBreak | Event::End(_) => sections[last].2.push(' '),
            _ => {}
        }
    }
    sections.retain(|(_, heading, text)| !heading.is_empty() || !text.trim().is_empty());
    sections
}

/// Makes the ids of the headings of one page, as GitHub does.
#[derive(Debug, Default)]
struct Slugs(BTreeMap<String, usize>);

impl Slugs {
    fn of(&mut self, heading: &str) -> String {
        let kept = heading.chars().filter(|char| char.is_alphanumeric() || [' ', '-', '_'].contains(char));
        let slug: String = kept.map(|char| if char == ' ' { '-' } else { char.to_ascii_lowercase() }).collect();
        let count = self.0.entry(slug.clone()).or_default();
        *count += 1;
        if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
    }
}

fn is_remote(link: &str) -> bool {
    link.starts_with("https://") || link.starts_with("http://") || link.starts_with("mailto:")
}

/// Returns the path in the repository that a link of a page leads to.
fn resolve(page: &str, link: &str) -> String {
    let mut path = PathBuf::from(page);
    path.pop();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path.to_string_lossy().into_owned()
}

/// Returns the place of a page or another file in the book.
fn address(path: &str) -> String {
    let path = match path.strip_prefix("docs/") {
        Some(path) => path.to_owned(),
        None => format!("repository/{path}"),
    };
    path.strip_suffix(".md").map(|stem| format!("{stem}.html")).unwrap_or(path)
}

/// Returns a link from one place of the book to another.
fn relative(from: &str, to: &str) -> String {
    format!("{}{to}", "../".repeat(from.matches('/').count()))
}

/// Returns the address in the book of a link on a page.
fn rewrite(page: &str, link: &str) -> String {
    if is_remote(link) || link.starts_with('#') {
        return link.to_owned();
    }
    let (file, anchor) = link.find('#').map_or((link, ""), |at| link.split_at(at));
    format!("{}{anchor}", relative(&address(page), &address(&resolve(page, file))))
}

/// Returns the list of pages for the side bar of a page.
fn side(entries: &[Entry], current: &str, from: &str) -> String {
    let items = entries.iter().map(|entry| match entry {
        Entry::Part(title) => format!("<li class=\"part\">{}</li>\n", html::escape(title)),
        Entry::Page { depth, title, path } => {
            let mark = if path == current { " aria-current=\"page\"" } else { "" };
            let href = relative(from, &address(path));
            format!("<li class=\"depth{depth}\"><a href=\"{href}\"{mark}>{}</a></li>\n", html::escape(title))
        }
    });
    items.collect()
}

fn write(path: &Path, content: &[u8]) -> Result {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    #[expect(clippy::disallowed_methods, reason = "a page can be built again")]
    fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_from_any_page_to_any_other() {
        assert_eq!(resolve("docs/concepts/lease.md", "../limits.md"), "docs/limits.md");
        assert_eq!(resolve("docs/concepts/lease.md", "../../README.md"), "README.md");
        assert_eq!(rewrite("docs/concepts/lease.md", "../limits.md#a"), "../limits.html#a");
        assert_eq!(rewrite("docs/server.md", "../SECURITY.md"), "repository/SECURITY.html");
        assert_eq!(rewrite("README.md", "docs/images/a.svg"), "../images/a.svg");
        assert_eq!(rewrite("docs/server.md", "https://example.org/a.md"), "https://example.org/a.md");
    }

    #[test]
    fn headings_have_the_ids_that_github_gives_them() {
        let page = Page::parse("# The `way` in: 2 words\n\n[a](b.md#c) ![d](e.svg)\n\n## Twice\n\n## Twice\n");
        assert_eq!(page.anchors.iter().collect::<Vec<_>>(), ["the-way-in-2-words", "twice", "twice-1"]);
        assert_eq!(page.links, ["b.md#c", "e.svg"]);
    }

    #[test]
    fn a_summary_has_parts_and_nested_pages() {
        let entries =
            summary("# Summary\n\n- [A](a.md)\n\n# Part\n\n- [B](b.md)\n  - [C](c/d.md)\n").unwrap_or_default();
        let page = |depth, title: &str, path: &str| Entry::Page { depth, title: title.into(), path: path.into() };
        let part = Entry::Part("Part".to_owned());
        assert_eq!(entries, [page(0, "A", "docs/a.md"), part, page(0, "B", "docs/b.md"), page(1, "C", "docs/c/d.md")]);
        assert!(summary("words\n").is_err());
    }

    #[test]
    fn dead_links_and_pages_that_are_not_listed_are_reported() {
        let root = target().join("book-test");
        for name in ROOT_PAGES {
            write(&root.join(name), b"# Page\n").unwrap_or_default();
        }
        let pages: [(&str, &[u8]); 4] = [
            ("docs/SUMMARY.md", b"# Summary\n\n- [A](a.md)\n- [Gone](gone.md)\n"),
            ("docs/a.md", b"# A\n\n[1](b.md#b) [2](b.md#c) [3](no.md) [4](#a) [5](../x.rs) [6](../README.md)\n"),
            ("docs/b.md", b"# B\n"),
            ("x.rs", b""),
        ];
        for (path, text) in pages {
            write(&root.join(path), text).unwrap_or_default();
        }
        let mut complaints = Vec::new();
        assert_eq!(check(&root, &mut complaints), Ok(()));
        assert_eq!(
            complaints,
            [
                "docs/SUMMARY.md: docs/gone.md does not exist",
                "docs/SUMMARY.md does not list docs/b.md",
                "docs/SUMMARY.md links to gone.md: docs/gone.md does not exist",
                "docs/a.md links to b.md#c: docs/b.md has no heading #c",
                "docs/a.md links to no.md: docs/no.md does not exist",
                "docs/a.md links to ../x.rs: x.rs is not part of the guide",
            ]
        );
    }

    #[test]
    fn text_is_escaped_and_links_are_rewritten() {
        let body = html::body("# A <b>\n\n`1 < 2` [x](y.md)\n\n|a|b|\n|-|-|\n|`c`|d|\n\n- [ ] e\n", |link| {
            rewrite("docs/a.md", link)
        });
        assert!(body.contains("<h1 id=\"a-\">A "), "{body}");
        assert!(body.contains("<code>1 &lt; 2</code> <a href=\"y.html\">x</a>"), "{body}");
        assert!(
            body.contains("<thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td><code>c</code></td>"),
            "{body}"
        );
    }
}
