//! Requests, plans, and files of other programs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};
use waypost::ops::issue::batch::decode_line;
use waypost_core::ledger::record::Record;
use waypost_core::tables::{Datum, Row, Tables};
use waypost_core::time::Timestamp;
use waypost_core::work::plan::Plan;
use waypost_core::work::template as templates;
use waypost_core::yaml;
use waypost_core::{Error, op};
use waypost_import::issues::{self, Format, Source};
use waypost_import::workflows::{self, ImportContext, agentdb, caw, langgraph, pedrocli};

use waypost_workspace::git_config_for_git;

use crate::{parts, with_text};

/// The arguments of an operation, as HTTP and MCP bring them: what was decoded is decoded the same again.
pub(crate) fn operation(data: &[u8]) {
    let Some((number, body)) = data.split_first() else { return };
    let entry = &op::TABLE[usize::from(*number) % op::TABLE.len()];
    let Ok(arguments) = serde_json::from_slice::<Value>(body) else { return };
    let Ok(decoded) = (entry.decode)(&arguments) else { return };
    let fail = |error: Error| -> Value { panic!("{}: {}", entry.about.name, error.full_message()) };
    let encoded = decoded.arguments().unwrap_or_else(fail);
    let again = (entry.decode)(&encoded).and_then(|again| again.arguments()).unwrap_or_else(fail);
    assert_eq!(again, encoded, "{}", entry.about.name);
}

/// A line of a batch is a change, or an error in one line.
pub(crate) fn batch(data: &[u8]) {
    let Ok(line) = serde_json::from_slice::<Value>(data) else { return };
    if let Err(error) = decode_line(line) {
        assert!(!error.full_message().trim().is_empty());
    }
}

/// Of a repository's configuration git gets nothing that names a program or a file, and reads what is written as we do.
pub(crate) fn git_config(data: &[u8]) {
    const HARMFUL: &[&str] = &[
        "askpass",
        "attributesfile",
        "clean",
        "command",
        "cookiefile",
        "editor",
        "excludesfile",
        "external",
        "fsmonitor",
        "gitproxy",
        "helper",
        "hookspath",
        "pager",
        "packobjectshook",
        "path",
        "process",
        "program",
        "proxy",
        "receivepack",
        "recentobjectshook",
        "smudge",
        "sshcommand",
        "textconv",
        "update",
        "uploadpack",
        "vcs",
        "worktree",
        "worktreeconfig",
    ];
    const SECTIONS: &[&str] =
        &["alias", "gpg", "include", "includeif", "pager", "safe", "sequence", "trace2", "trailer"];
    let Some((keys, written)) = git_config_for_git(data) else { return };
    for (key, middle) in &keys {
        let (section, name) = key.split_once('.').unwrap_or((key, ""));
        let is_lfs = section == "filter" && middle.as_deref() == Some(b"lfs");
        assert!(!SECTIONS.contains(&section) && (!HARMFUL.contains(&name) || is_lfs), "{key} reaches git");
        assert!(section != "filter" || is_lfs, "{key} reaches git");
    }
    let again = git_config_for_git(&written);
    assert!(again.is_some_and(|again| again == (keys, written)), "what is written is not read the same");
}

/// Every form of a plan reads the same again from its JSON.
pub(crate) fn plan(data: &[u8]) {
    with_text(data, |text| {
        let forms = [
            Plan::from_text(text),
            yaml::read(text).and_then(Plan::from_value),
            from_json(text).and_then(Plan::from_value),
        ];
        for plan in forms.into_iter().flatten() {
            let written = serde_json::to_value(&plan).expect("a plan is JSON");
            assert_eq!(Plan::from_value(written).expect("it is a plan"), plan);
        }
    });
}

fn from_json(text: &str) -> waypost_core::Result<Value> {
    serde_json::from_str(text).map_err(|error| waypost_core::Error::invalid("not JSON").because(error))
}

/// YAML is read into a value of bounded size, and with texts alone if asked.
pub(crate) fn yaml_text(data: &[u8]) {
    with_text(data, |text| {
        if let Ok(value) = yaml::read(text) {
            let written = value.to_string();
            // Aliases repeat values; the limit is on the whole.
            assert!(written.len() <= 64 * 1024 * 1024, "{} bytes from {}", written.len(), text.len());
            assert_eq!(serde_json::from_str::<Value>(&written).ok().as_ref(), Some(&value));
        }
        if let Ok(value) = yaml::read_texts(text) {
            assert!(!has_numbers(&value), "{value}");
        }
    });
}

fn has_numbers(value: &Value) -> bool {
    match value {
        Value::Number(_) | Value::Bool(_) => true,
        Value::Array(items) => items.iter().any(has_numbers),
        Value::Object(fields) => fields.values().any(has_numbers),
        _ => false,
    }
}

/// Values of variables are data: they name no other variable, and none is left.
pub(crate) fn template(data: &[u8]) {
    with_text(data, |text| {
        let Ok(body) = yaml::read(text) else { return };
        let names = templates::names(&body);
        let variables = templates::declared(&body, Vec::new());
        let given: BTreeMap<String, String> = names.iter().map(|name| (name.clone(), "{{name}}".to_owned())).collect();
        let Ok(rendered) = templates::render(&body, &variables, &given) else { return };
        assert!(templates::names(&rendered).iter().all(|name| name == "name"), "{rendered}");
    });
}

/// Each imported record is a line of a ledger.
pub(crate) fn import_issues(data: &[u8]) {
    let Some((number, content)) = data.split_first() else { return };
    let format = Format::ALL[usize::from(*number) % Format::ALL.len()];
    let name = if format == Format::Backlog { "backlog/tasks/task-1 - Title.md" } else { "issues.json" };
    let sources = [Source { name: name.to_owned(), bytes: content.to_vec() }];
    let _ = Format::guess(&sources);
    let Ok(imported) = issues::read(format, &sources) else { return };
    for record in &imported.records {
        let line = record.to_line();
        assert!(!line.contains(['\n', '\r']), "{line:?}");
        let again = Record::parse(&line).expect("an imported record is a record");
        assert_eq!(again.to_line(), line);
        if format.is_ledger() {
            continue;
        }
        let mut record = record.clone();
        if issues::complete(&mut record, format).is_ok() {
            let adopted = issues::adopt(&record, "x-1", |_| None);
            let (adopted, _) = adopted.unwrap_or_else(|error| panic!("{line}: {}", error.full_message()));
            assert_eq!(adopted.text("id").as_deref(), Some("x-1"));
        }
    }
}

static CONTEXT: LazyLock<ImportContext> = LazyLock::new(|| {
    let repository = json!({ "id": "rp_000000000001", "name": "r", "path": "/r", "vcs": "git", "remote_url": null,
        "default_branch": null });
    let worktree = json!({ "id": "wt_000000000001", "repository_id": "rp_000000000001", "name": "r", "path": "/r",
        "branch": null, "first_seen": 0, "last_seen": 0, "removed_at": null });
    ImportContext {
        repository: serde_json::from_value(repository).expect("a repository"),
        worktree: serde_json::from_value(worktree).expect("a worktree"),
        repositories: BTreeMap::new(),
        is_shared: false,
        now: Timestamp::from_millis(1_767_225_600_000),
    }
});

/// Workflows of other programs: rows as JSON, and blobs of LangGraph.
pub(crate) fn import_workflows(data: &[u8]) {
    let [kind, content] = parts(data);
    let imported = match kind {
        b"langgraph" => {
            let [form, blob] = parts(content);
            let form = String::from_utf8_lossy(form).into_owned();
            let text = |text: &str| Datum::Text(text.to_owned());
            let row = Row::from([
                ("thread_id".to_owned(), text("t")),
                ("checkpoint_ns".to_owned(), text("")),
                ("checkpoint_id".to_owned(), text("1ef0")),
                ("parent_checkpoint_id".to_owned(), Datum::Null),
                ("type".to_owned(), Datum::Text(form)),
                ("checkpoint".to_owned(), Datum::Blob(blob.to_vec())),
                ("metadata".to_owned(), Datum::Blob(blob.to_vec())),
            ]);
            let tables = Tables::from([("checkpoints".to_owned(), vec![row])]);
            langgraph::read(&tables, &CONTEXT, &[]).unwrap_or_default()
        }
        b"caw" => caw::read(&tables(content), &CONTEXT),
        b"agentdb" => {
            let tables: Option<BTreeMap<String, Vec<Value>>> = serde_json::from_slice(content).ok();
            agentdb::read(&tables.unwrap_or_default(), &CONTEXT)
        }
        _ => {
            let Ok(rows) = workflows::read_rows(content) else { return };
            rows.iter().for_each(|row| {
                pedrocli::settings(row);
            });
            pedrocli::read(&rows, &CONTEXT)
        }
    };
    for dump in &imported.workflows {
        let written = serde_json::to_value(dump).expect("a dump is JSON");
        serde_json::from_value::<waypost_core::work::transfer::WorkflowDump>(written).expect("it is a dump");
    }
}

/// Reads tables from JSON: rows by the name of their table.
fn tables(content: &[u8]) -> Tables {
    let tables: Option<BTreeMap<String, Vec<BTreeMap<String, Value>>>> = serde_json::from_slice(content).ok();
    let datum = |value: Value| match value {
        Value::Null => Datum::Null,
        Value::Number(number) => number.as_i64().map_or(Datum::Real(0.5), Datum::Int),
        Value::String(text) => Datum::Text(text),
        other => Datum::Blob(other.to_string().into_bytes()),
    };
    let row = |row: BTreeMap<String, Value>| row.into_iter().map(|(name, value)| (name, datum(value))).collect();
    tables.unwrap_or_default().into_iter().map(|(name, rows)| (name, rows.into_iter().map(row).collect())).collect()
}
