//! Exports issues as documents: a CSV table or a Markdown page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::vocabulary::{Category, DependencyKind, Statuses};
use waypost_core::time::Timestamp;
use waypost_ledger::IndexedIssue;

/// A column of a table, named after the field of the record; the column names of `way list` are aliases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Field {
    Id,
    Title,
    Status,
    Priority,
    #[value(alias = "type")]
    IssueType,
    Assignee,
    Owner,
    Labels,
    #[value(alias = "parent")]
    ParentId,
    BlockedBy,
    #[value(alias = "created")]
    CreatedAt,
    CreatedBy,
    #[value(alias = "updated")]
    UpdatedAt,
    #[value(alias = "closed")]
    ClosedAt,
    CloseReason,
    #[value(alias = "due")]
    DueAt,
    DeferUntil,
    EstimatedMinutes,
    ExternalRef,
    Description,
    Design,
    AcceptanceCriteria,
    Notes,
}

impl Field {
    fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn of(self, issue: &Issue) -> String {
        let time = |moment: Option<Timestamp>| moment.map(|moment| moment.to_string()).unwrap_or_default();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        match self {
            Field::Id => issue.id.clone(),
            Field::Title => issue.title.clone(),
            Field::Status => issue.status.clone(),
            Field::Priority => issue.priority.to_string(),
            Field::IssueType => issue.issue_type.clone(),
            Field::Assignee => text(&issue.assignee),
            Field::Owner => text(&issue.owner),
            Field::Labels => issue.labels.join(","),
            Field::ParentId => text(&issue.parent_id),
            Field::BlockedBy => issue.blockers().collect::<Vec<_>>().join(","),
            Field::CreatedAt => time(issue.created_at),
            Field::CreatedBy => text(&issue.created_by),
            Field::UpdatedAt => time(issue.updated_at),
            Field::ClosedAt => time(issue.closed_at),
            Field::CloseReason => text(&issue.close_reason),
            Field::DueAt => time(issue.due_at),
            Field::DeferUntil => time(issue.defer_until),
            Field::EstimatedMinutes => issue.estimated_minutes.map(|minutes| minutes.to_string()).unwrap_or_default(),
            Field::ExternalRef => text(&issue.external_ref),
            Field::Description => issue.description.clone(),
            Field::Design => issue.design.clone(),
            Field::AcceptanceCriteria => issue.acceptance_criteria.clone(),
            Field::Notes => issue.notes.clone(),
        }
    }
}

/// Returns a CSV table (RFC 4180) of the named fields, or of all fields.
pub(crate) fn csv(entries: &[IndexedIssue], fields: &[Field]) -> String {
    let fields = if fields.is_empty() { <Field as clap::ValueEnum>::value_variants() } else { fields };
    let mut table = String::new();
    let mut row = |cells: Vec<String>| {
        table.push_str(&cells.join(","));
        table.push_str("\r\n");
    };
    row(fields.iter().map(|field| field.name()).collect());
    for entry in entries {
        row(fields.iter().map(|field| cell(&field.of(&entry.issue))).collect());
    }
    table
}

/// Returns a cell of a table. An apostrophe keeps a spreadsheet from running it as a formula.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    let is_quoted = text.contains([',', '"', '\r', '\n']) || text.trim() != text;
    if is_quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// Returns a Markdown page, grouped by status.
pub(crate) fn markdown(entries: &[IndexedIssue], statuses: &Statuses) -> String {
    let mut groups: BTreeMap<(u8, &str), Vec<&Issue>> = BTreeMap::new();
    for entry in entries {
        let status = entry.issue.status.as_str();
        let rank = match statuses.category(status) {
            Category::Wip => 0,
            Category::Active => 1,
            Category::Frozen => 2,
            Category::Done => 3,
            Category::Deleted => 4,
        };
        groups.entry((rank, status)).or_default().push(&entry.issue);
    }
    let mut page = String::from("# Issues\n");
    for ((rank, status), mut issues) in groups {
        issues.sort_by(|left, right| {
            (left.priority, left.created_at, &left.id).cmp(&(right.priority, right.created_at, &right.id))
        });
        let mut name = status.replace('_', " ");
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        write(&mut page, format_args!("\n## {} ({})\n", escaped(&name), issues.len()));
        for issue in issues {
            item(&mut page, issue, rank >= 3);
        }
    }
    page
}

fn item(page: &mut String, issue: &Issue, is_over: bool) {
    let mark = if is_over { 'x' } else { ' ' };
    write(page, format_args!("\n- [{mark}] **{}** {}\n", escaped(&issue.id), escaped(&issue.title)));
    let mut facts = vec![format!("P{} {}", issue.priority, escaped(&issue.issue_type))];
    facts.extend(issue.assignee.as_ref().map(|name| format!("assignee {}", escaped(name))));
    facts.extend(issue.due_at.map(|due| format!("due {due}")));
    facts.extend(issue.closed_at.filter(|_| is_over).map(|closed| format!("closed {closed}")));
    if !issue.labels.is_empty() {
        let labels: Vec<String> = issue.labels.iter().map(|label| escaped(label)).collect();
        facts.push(format!("labels {}", labels.join(", ")));
    }
    write(page, format_args!("  - {}\n", facts.join("; ")));
    let mut edges: Vec<(&str, Vec<String>)> = Vec::new();
    let parent = issue.parent_id.iter().map(|parent| ("part of", parent));
    let others = issue.dependencies.iter().filter(|edge| edge.kind != Some(DependencyKind::ParentChild)).map(|edge| {
        let verb = match edge.kind {
            Some(DependencyKind::Blocks) => "waits for",
            Some(DependencyKind::DiscoveredFrom) => "discovered from",
            Some(DependencyKind::Duplicates) => "duplicates",
            Some(DependencyKind::Supersedes) => "supersedes",
            Some(DependencyKind::Related | DependencyKind::ParentChild) | None => "related to",
        };
        (verb, &edge.depends_on_id)
    });
    for (verb, id) in parent.chain(others) {
        match edges.iter_mut().find(|(known, _)| *known == verb) {
            Some((_, ids)) => ids.push(escaped(id)),
            None => edges.push((verb, vec![escaped(id)])),
        }
    }
    for (verb, ids) in edges {
        write(page, format_args!("  - {verb} {}\n", ids.join(", ")));
    }
    if !issue.description.trim().is_empty() {
        page.push('\n');
        quoted(page, issue.description.trim_end());
    }
}

/// Writes a text unchanged, in a fence longer than any in the text.
fn quoted(page: &mut String, text: &str) {
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    write(page, format_args!("  {fence}text\n"));
    // Lines end in \n, \r\n or \r.
    for line in text.replace("\r\n", "\n").split(['\n', '\r']) {
        write(page, format_args!("{}\n", format!("  {line}").trim_end()));
    }
    write(page, format_args!("  {fence}\n"));
}

/// Returns the text in one line, with Markdown characters escaped.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for char in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        if "\\`*_{}[]<>()#|~&$!^".contains(char) {
            safe.push('\\');
        }
        safe.push(char);
    }
    safe
}

fn write(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Options, Parser};
    use waypost_core::ledger::record::Record;

    use super::*;

    #[test]
    fn cells_are_quoted_and_formulas_are_disarmed() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"x\"\nnow", "\"say \"\"x\"\"\nnow\""),
            ("=1+1", "'=1+1"),
            ("@x,y", "\"'@x,y\""),
            ("-", "'-"),
            (" lead", "\" lead\""),
            ("", ""),
        ] {
            assert_eq!(cell(text), expected);
        }
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(escaped("# <b>*x*\n[y](z) `c` & $1"), "\\# \\<b\\>\\*x\\* \\[y\\]\\(z\\) \\`c\\` \\& \\$1");
        let mut page = String::new();
        quoted(&mut page, "a\n````\nb\r# c");
        assert_eq!(page, "  `````text\n  a\n  ````\n  b\n  # c\n  `````\n");
    }

    /// Returns the parts of a page that a reader of Markdown makes of it, with all its extensions: each opened part, and
    /// whatever is not a text.
    fn parts(page: &str) -> Vec<String> {
        let name = |shown: String| shown.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
        let parts = Parser::new_ext(page, Options::all()).filter_map(|event| match event {
            Event::Text(_) | Event::SoftBreak | Event::End(_) => None,
            Event::Start(tag) => Some(name(format!("{tag:?}"))),
            other => Some(name(format!("{other:?}"))),
        });
        parts.collect()
    }

    proptest! {
        #[test]
        fn t7_no_text_of_an_issue_is_markup_in_an_exported_page(
            text in r"([<>&\[\]()!#*_`~|$\\:=+^{}\-\n\r\t ]|https://e\.x|<script>|<!--|\]\(|javascript:|\[\^1\]:|---|1\. |x){1,40}",
        ) {
            let page_of = |text: &str, title: &str| {
                let record = serde_json::json!({
                    "id": "r-1", "title": title, "issue_type": title, "assignee": title, "labels": [title],
                    "status": title, "description": text,
                });
                let record = Record::parse(&record.to_string()).unwrap();
                let issue = Issue::read(&record).unwrap().0;
                markdown(&[IndexedIssue { issue, record, ledger: 0, raw: String::new() }], &Statuses::default())
            };
            prop_assert_eq!(parts(&page_of(&format!("{text}x"), &text)), parts(&page_of("x", "plain")));
        }
    }
}
