//! Reads plans written as JSON, YAML or in the short form.

use std::io::Read;
use std::path::Path;

use serde_json::Value;
use waypost_core::work::plan::Plan;
use waypost_core::{Error, Result, yaml};
use waypost_workspace::surroundings;

/// Maximum size of a plan.
const MAX_PLAN_BYTES: u64 = 16 * 1024 * 1024;

/// The syntax of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Yaml,
    Short,
}

/// Reads a plan from a file, or from standard input for `-`.
pub fn read_plan(path: &Path) -> Result<Plan> {
    let cannot = |error: std::io::Error| Error::invalid(format!("cannot read {}", path.display())).because(error);
    let mut text = Vec::new();
    let form = if path.as_os_str() == "-" {
        surroundings::stdin().take(MAX_PLAN_BYTES + 1).read_to_end(&mut text).map_err(cannot)?;
        None
    } else {
        let file = std::fs::File::open(surroundings::resolve(path)).map_err(cannot)?;
        file.take(MAX_PLAN_BYTES + 1).read_to_end(&mut text).map_err(cannot)?;
        form_by_name(path)
    };
    if text.len() as u64 > MAX_PLAN_BYTES {
        return Err(Error::invalid(format!("{} is too large to be a plan", path.display())));
    }
    let text = String::from_utf8(text)
        .map_err(|_| Error::invalid(format!("{} is not UTF-8 text, so it is not a plan", path.display())))?;
    // Some editors write a byte order mark.
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(Error::invalid("the plan is empty")
            .hint("write one task per line, `name: description`; below it, indented, `needs: other, tasks`"));
    }
    read(text, form.unwrap_or_else(|| form_by_content(text)))
}

/// Decodes a plan, or a text that contains one. The file's name decides on the syntax, else the content.
pub(crate) fn decode(text: &str, path: &Path) -> Result<Value> {
    let text = text.trim_start_matches('\u{feff}');
    match form_by_name(path).unwrap_or_else(|| form_by_content(text)) {
        Form::Short => serde_json::to_value(Plan::from_text(text)?)
            .map_err(|error| Error::internal("a plan is not JSON").because(error)),
        form => decode_value(text, form),
    }
}

fn read(text: &str, form: Form) -> Result<Plan> {
    match form {
        Form::Short => Plan::from_text(text),
        form => Plan::from_value(decode_value(text, form)?),
    }
}

fn decode_value(text: &str, form: Form) -> Result<Value> {
    match form {
        Form::Yaml => yaml::read(text).map_err(|error| error.within("the plan")),
        Form::Json | Form::Short => {
            serde_json::from_str(text).map_err(|error| Error::invalid("the plan is not JSON").because(error))
        }
    }
}

/// Returns the syntax that a file's name implies.
fn form_by_name(path: &Path) -> Option<Form> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "json" => Some(Form::Json),
        "yaml" | "yml" => Some(Form::Yaml),
        _ => None,
    }
}

/// Guesses the syntax of a text. Only YAML has lines that begin with `tasks:`, `- name:` or `---`.
fn form_by_content(text: &str) -> Form {
    if text.trim_start().starts_with(['{', '[']) {
        return Form::Json;
    }
    let is_yaml = |line: &str| line.starts_with("tasks:") || line.starts_with("- name:") || line.starts_with("---");
    if text.lines().any(is_yaml) { Form::Yaml } else { Form::Short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c9_a_plan_is_the_same_in_all_three_forms() {
        let json = r#"{"summary": "Ship it", "tasks": [
            {"name": "build", "description": "Compile everything"},
            {"name": "test", "description": "Run the tests", "depends_on": ["build"], "timeout": "10m", "files": ["a", "b"]}]}"#;
        let yaml = "summary: Ship it\ntasks:\n- name: build\n  description: Compile everything\n- name: test\n  \
                    description: Run the tests\n  depends_on: build\n  timeout: 10m\n  files: [a, b]\n";
        let short = "# Ship it\nbuild: Compile everything\ntest: Run the tests\n  needs: build\n  timeout: 10m\n  files: a, b\n";
        let plans = [json, yaml, short].map(|text| read(text, form_by_content(text)).unwrap());
        assert_eq!(plans[0], plans[1]);
        assert_eq!(plans[0], plans[2]);
        assert_eq!(plans[0].tasks[1].timeout, Some(600_000));
    }

    #[test]
    fn the_file_name_decides_on_the_form_and_else_the_content() {
        assert_eq!(form_by_name(Path::new("plan.YML")), Some(Form::Yaml));
        assert_eq!(form_by_name(Path::new("plan.txt")), None);
        assert_eq!(form_by_content("  [\n"), Form::Json);
        assert_eq!(form_by_content("- name: a\n"), Form::Yaml);
        assert_eq!(form_by_content("build: all\n- test: it\n"), Form::Short);
    }
}
