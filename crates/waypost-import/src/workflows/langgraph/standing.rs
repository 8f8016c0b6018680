//! Finds out from a checkpoint of LangGraph whether its thread ended, failed, waits for an answer, or stopped.
//!
//! A checkpoint does not state this. The graph goes on as long as a channel that starts a node has a value; the writes of
//! the nodes that ran after the checkpoint contain their errors and questions.

use std::collections::BTreeSet;

use serde_json::Value;

/// How a thread stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// No node is left to run.
    Finished,
    /// A node failed, or the graph ended with an error in its state.
    Failed(String),
    /// A node waits for an answer.
    Asks(String),
    /// These nodes would run next.
    Stopped(Vec<String>),
    /// The checkpoint is unreadable, or of a version that does not name the next nodes.
    Unknown,
}

/// Channels of writes that do not tell that a node has ended.
const OPEN_WRITES: &[&str] = &["__error__", "__interrupt__", "__resume__", "__scheduled__"];
/// Channels in which programs keep the error that ended their graph.
const ERROR_CHANNELS: &[&str] = &["error_message", "error"];

/// Returns the standing after a checkpoint with this state and these writes.
pub(super) fn of(state: &Value, writes: &[Value]) -> Standing {
    let is_open = |write: &&Value| write["channel"].as_str().is_some_and(|channel| OPEN_WRITES.contains(&channel));
    let ended: Vec<&Value> = writes.iter().filter(|write| !is_open(write)).map(|write| &write["task"]).collect();
    let open = |channel: &str| -> Vec<&Value> {
        let is_meant = |write: &&Value| write["channel"] == channel && !ended.contains(&&write["task"]);
        writes.iter().filter(is_meant).map(|write| &write["value"]).collect()
    };
    let errors: BTreeSet<String> = open("__error__").into_iter().map(shown).collect();
    if !errors.is_empty() {
        return Standing::Failed(joined(errors));
    }
    let questions: BTreeSet<String> = open("__interrupt__").into_iter().flat_map(questions).collect();
    if !questions.is_empty() {
        return Standing::Asks(joined(questions));
    }
    let Some(channels) = state["channel_values"].as_object() else { return Standing::Unknown };
    let mut next: BTreeSet<String> = BTreeSet::new();
    for (channel, value) in channels {
        next.extend(started_by(channel, value));
    }
    next.extend(sends(&state["pending_sends"]));
    if !next.is_empty() {
        return Standing::Stopped(next.into_iter().collect());
    }
    // Before LangGraph 0.3, a node's own channel started the next nodes, if there are any.
    let is_old_edge = |channel: &String, value: &Value| {
        value.as_str() == Some(channel) && state["versions_seen"].get(channel.as_str()).is_some()
    };
    if channels.iter().any(|(channel, value)| is_old_edge(channel, value)) {
        return Standing::Unknown;
    }
    let error = ERROR_CHANNELS.iter().filter_map(|channel| channels.get(*channel)?.as_str());
    match error.map(str::trim).find(|error| !error.is_empty()) {
        Some(error) => Standing::Failed(error.to_owned()),
        None => Standing::Finished,
    }
}

/// Returns the nodes that the value of a channel starts.
fn started_by(channel: &str, value: &Value) -> Vec<String> {
    if channel == "__start__" {
        return vec!["its first node".to_owned()];
    }
    if channel == "__pregel_tasks" {
        return sends(value);
    }
    if let Some(node) = channel.strip_prefix("branch:to:").or_else(|| channel.strip_prefix("start:")) {
        return vec![node.to_owned()];
    }
    if let Some(rest) = channel.strip_prefix("branch:") {
        return rest.rsplit(':').next().map(str::to_owned).into_iter().collect();
    }
    // A node that waits for several others: the value has the names of those that have ended.
    if let Some((awaited, node)) = channel.strip_prefix("join:").and_then(|rest| rest.rsplit_once(':')) {
        let names = value.as_array().or_else(|| value["value"].as_array()).map_or(0, Vec::len);
        if names == awaited.split('+').count() {
            return vec![node.to_owned()];
        }
    }
    Vec::new()
}

/// Returns the nodes to which a graph sent messages.
fn sends(value: &Value) -> Vec<String> {
    let node = |send: &Value| {
        let arguments = &send["value"];
        let name = arguments["node"].as_str().or_else(|| arguments.as_array()?.first()?.as_str());
        name.unwrap_or("a node").to_owned()
    };
    value.as_array().into_iter().flatten().map(node).collect()
}

/// Returns the questions of an interrupt, or of a list of interrupts.
fn questions(value: &Value) -> Vec<String> {
    let question = |interrupt: &Value| {
        let arguments = &interrupt["value"];
        let asked = arguments.get("value").or_else(|| arguments.as_array()?.first()).unwrap_or(arguments);
        shown(asked)
    };
    match value {
        Value::Array(interrupts) => interrupts.iter().map(question).collect(),
        one => vec![question(one)],
    }
}

/// Returns a value as text. An object begins with its question.
fn shown(value: &Value) -> String {
    if let Value::String(text) = value {
        return text.clone();
    }
    let key = ["question", "message", "prompt"].into_iter().find(|key| value[*key].is_string());
    let (Some(key), Some(fields)) = (key, value.as_object()) else { return value.to_string() };
    let question = value[key].as_str().unwrap_or_default();
    let rest: serde_json::Map<String, Value> =
        fields.iter().filter(|(other, _)| *other != key).map(|(key, value)| (key.clone(), value.clone())).collect();
    if rest.is_empty() { question.to_owned() } else { format!("{question} {}", Value::Object(rest)) }
}

fn joined(texts: BTreeSet<String>) -> String {
    texts.into_iter().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write(task: &str, channel: &str, value: &Value) -> Value {
        json!({ "task": task, "channel": channel, "value": value })
    }

    fn after(channels: &Value) -> Standing {
        of(&json!({ "channel_values": channels, "versions_seen": { "a": {} } }), &[])
    }

    #[test]
    fn a_channel_that_starts_a_node_means_that_the_thread_stopped_there() {
        let stopped = |nodes: &[&str]| Standing::Stopped(nodes.iter().map(|node| (*node).to_owned()).collect());
        assert_eq!(after(&json!({ "log": ["a"], "branch:to:b": null })), stopped(&["b"]));
        assert_eq!(after(&json!({ "start:a": "__start__" })), stopped(&["a"]));
        assert_eq!(after(&json!({ "branch:a:route:b": "a" })), stopped(&["b"]));
        assert_eq!(after(&json!({ "__start__": {} })), stopped(&["its first node"]));
        assert_eq!(after(&json!({ "join:a+b:c": { "type": "builtins.set", "value": ["a", "b"] } })), stopped(&["c"]));
        let send = json!({ "type": "langgraph.types.Send", "value": ["work", {}] });
        assert_eq!(after(&json!({ "__pregel_tasks": [send] })), stopped(&["work"]));
        assert_eq!(of(&json!({ "channel_values": {}, "pending_sends": [send] }), &[]), stopped(&["work"]));
    }

    #[test]
    fn a_thread_without_a_next_node_ended() {
        assert_eq!(after(&json!({ "log": ["a"] })), Standing::Finished);
        assert_eq!(after(&json!({ "join:a+b:c": ["a"], "error_message": "", "error": null })), Standing::Finished);
        assert_eq!(after(&json!({ "error_message": " no spec " })), Standing::Failed("no spec".to_owned()));
        assert_eq!(after(&json!({ "a": "a" })), Standing::Unknown, "before 0.3 the next node is not recorded");
        assert_eq!(of(&Value::Null, &[]), Standing::Unknown);
    }

    #[test]
    fn the_last_writes_contain_errors_and_questions_of_nodes_that_did_not_end() {
        let state = json!({ "channel_values": { "branch:to:b": null } });
        let interrupt =
            |value: Value| json!([{ "type": "langgraph.types.Interrupt", "value": { "value": value, "id": "1" } }]);
        let asked = write("t1", "__interrupt__", &interrupt(json!("Sure?")));
        let object = write("t2", "__interrupt__", &interrupt(json!({ "question": "Which port?", "options": [1, 2] })));
        assert_eq!(of(&state, std::slice::from_ref(&asked)), Standing::Asks("Sure?".to_owned()));
        assert_eq!(
            of(&state, &[asked.clone(), object]),
            Standing::Asks("Sure?\nWhich port? {\"options\":[1,2]}".to_owned())
        );
        let answered = [asked.clone(), write("t1", "__resume__", &json!(["yes"])), write("t1", "log", &json!(["yes"]))];
        assert_eq!(of(&state, &answered), Standing::Stopped(vec!["b".to_owned()]));
        let failed = write("t3", "__error__", &json!("ValueError('no network')"));
        assert_eq!(of(&state, &[asked, failed.clone()]), Standing::Failed("ValueError('no network')".to_owned()));
        let repeated = [failed, write("t3", "log", &json!(["ok"]))];
        assert_eq!(of(&state, &repeated), Standing::Stopped(vec!["b".to_owned()]));
    }
}
