//! Checks the guide: `docs/SUMMARY.md` lists every page, and every link between pages leads somewhere. mdBook builds it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::Result;
use crate::tidy::{find_files, read};

/// The directory of the pages.
const DOCS: &str = "docs";
/// The list of the pages, in their order.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The pages in the root of the repository.
const ROOT_PAGES: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];

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
    let listed = summary(&read(&root.join(SUMMARY))?)?;
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

/// Returns the text of every page, by its path in the repository.
fn pages(root: &Path) -> Result<BTreeMap<String, String>> {
    let mut files: Vec<PathBuf> = ROOT_PAGES.iter().map(|name| root.join(name)).collect();
    find_files(&root.join(DOCS), "md", &mut files)?;
    let name = |file: &Path| file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned();
    files.iter().map(|file| Ok((name(file), read(file)?))).collect()
}

/// Returns the paths of the pages that the summary lists.
fn summary(text: &str) -> Result<Vec<String>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("# "));
    lines
        .map(|line| {
            let link = line.trim_start().strip_prefix("- [").and_then(|link| link.strip_suffix(')'));
            let (_, path) =
                link.and_then(|link| link.split_once("](")).ok_or_else(|| format!("{SUMMARY}: {line:?} is no link"))?;
            Ok(format!("{DOCS}/{path}"))
        })
        .collect()
}

impl Page {
    fn parse(text: &str) -> Self {
        let (mut page, mut ids, mut heading) = (Page::default(), Slugs::default(), None);
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.anchors.extend(heading.take().map(|heading| ids.of(&heading))),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        page
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_from_any_page_to_any_other() {
        assert_eq!(resolve("docs/concepts/lease.md", "../limits.md"), "docs/limits.md");
        assert_eq!(resolve("docs/concepts/lease.md", "../../README.md"), "README.md");
    }

    #[test]
    fn headings_have_the_ids_that_github_gives_them() {
        let page = Page::parse("# The `way` in: 2 words\n\n[a](b.md#c) ![d](e.svg)\n\n## Twice\n\n## Twice\n");
        assert_eq!(page.anchors.iter().collect::<Vec<_>>(), ["the-way-in-2-words", "twice", "twice-1"]);
        assert_eq!(page.links, ["b.md#c", "e.svg"]);
    }

    #[test]
    fn a_summary_has_parts_and_nested_pages() {
        let listed = summary("# Summary\n\n- [A](a.md)\n\n# Part\n\n- [B](b.md)\n  - [C](c/d.md)\n");
        assert_eq!(listed.unwrap(), ["docs/a.md", "docs/b.md", "docs/c/d.md"]);
        assert!(summary("words\n").is_err());
    }

    #[test]
    fn dead_links_and_pages_that_are_not_listed_are_reported() {
        let root = crate::target().join("pages-test");
        let write = |path: &str, text: &[u8]| {
            std::fs::create_dir_all(root.join("docs")).unwrap();
            std::io::Write::write_all(&mut std::fs::File::create(root.join(path)).unwrap(), text).unwrap();
        };
        for name in ROOT_PAGES {
            write(name, b"# Page\n");
        }
        let pages: [(&str, &[u8]); 4] = [
            ("docs/SUMMARY.md", b"# Summary\n\n- [A](a.md)\n- [Gone](gone.md)\n"),
            ("docs/a.md", b"# A\n\n[1](b.md#b) [2](b.md#c) [3](no.md) [4](#a) [5](../x.rs) [6](../README.md)\n"),
            ("docs/b.md", b"# B\n"),
            ("x.rs", b""),
        ];
        for (path, text) in pages {
            write(path, text);
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
}
