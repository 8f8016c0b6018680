//! The rules for every history, one function each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::history::{History, Operation};

/// Exit codes of refused commands, which have no effect.
const REFUSALS: [i64; 5] = [3, 4, 5, 6, 7];

/// The violations of a rule.
type Violations = Vec<String>;

/// A rule: returns its violations in a history.
type Rule = fn(&History) -> Violations;

/// Returns every violation of every rule.
pub(crate) fn check(history: &History) -> Violations {
    let rules: [(&str, Rule); 12] = [
        ("exit code", exit_codes),
        ("acknowledged write lost", acknowledged_writes_are_present),
        ("refused write happened", refused_writes_are_absent),
        ("written twice", writes_happen_once),
        ("half a write", writes_are_whole),
        ("second holder", epochs_increase),
        ("stale write accepted", accepted_writes_come_from_the_holder),
        ("lease lost early", leases_last),
        ("gap in the history", sequences_have_no_gaps),
        ("key with two answers", keys_have_one_answer),
        ("message order", messages_keep_their_order),
        ("task stuck or finished twice", tasks_are_finished_once),
    ];
    let found =
        rules.iter().flat_map(|(name, rule)| rule(history).into_iter().map(move |text| format!("{name}: {text}")));
    found.collect()
}

/// Describes an operation, for violations.
fn describe(operation: &Operation) -> String {
    format!("operation {} {} (exit code {:?})", operation.number, operation.does, operation.code)
}

/// No command ends with an internal error, a panic or a report of damage.
fn exit_codes(history: &History) -> Violations {
    let is_wrong = |code: i64| code != 0 && !REFUSALS.contains(&code) && !history.allowed.contains(&code);
    let wrong = history.operations.iter().filter(|operation| operation.code.is_some_and(is_wrong));
    wrong.map(|operation| format!("{}: {}", describe(operation), operation.answer)).collect()
}

/// Counts the effects of a write in the final state. None if its effect cannot be distinguished from that of another.
fn effects(history: &History, operation: &Operation) -> Option<usize> {
    let text = operation.text("text");
    let issue = || history.list("issues").iter().filter(|issue| issue["id"] == operation.does["issue"]);
    let under_lease = |kinds: &[&str]| {
        let (task, epoch) = operation.held()?;
        let is_meant = |event: &&Value| {
            kinds.iter().any(|kind| event["kind"] == **kind)
                && event["subject"] == task
                && event["data"]["epoch"] == epoch
        };
        Some(history.list("events").iter().filter(is_meant).count())
    };
    match operation.kind() {
        "checkpoint" => {
            let is_it = |one: &&Value| one["summary"] == text && one["task_id"] == operation.does["task"];
            Some(history.list("checkpoints").iter().filter(is_it).count())
        }
        "done" => under_lease(&["task.completed"]),
        "send" => Some(history.list("messages").iter().filter(|message| message["body"] == text).count()),
        "add" => Some(history.list("issues").iter().filter(|issue| issue["title"] == text).count()),
        "comment" => Some(issue().flat_map(|issue| list(&issue["comments"])).filter(|one| one["text"] == text).count()),
        "label" => Some(issue().flat_map(|issue| list(&issue["labels"])).filter(|label| **label == text).count()),
        "close" => Some(issue().filter(|issue| issue["status"] == "closed").count()),
        _ => None,
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn acknowledged_writes_are_present(history: &History) -> Violations {
    let is_lost = |operation: &&Operation| operation.is_acknowledged() && effects(history, operation) == Some(0);
    history.operations.iter().filter(is_lost).map(describe).collect()
}

fn refused_writes_are_absent(history: &History) -> Violations {
    // Another operation with the same text or key may have written it, and another agent may have closed an issue.
    let is_another = |operation: &Operation| {
        let same = |other: &&Operation| other.number != operation.number && other.does == operation.does;
        operation.kind() == "close" || history.operations.iter().any(|other| same(&other))
    };
    let is_there = |operation: &&Operation| {
        operation.code.is_some_and(|code| REFUSALS.contains(&code))
            && effects(history, operation).is_some_and(|count| count > 0)
            && !is_another(operation)
    };
    history.operations.iter().filter(is_there).map(describe).collect()
}

fn writes_happen_once(history: &History) -> Violations {
    let is_twice = |operation: &&Operation| effects(history, operation).is_some_and(|count| count > 1);
    history.operations.iter().filter(is_twice).map(describe).collect()
}

/// A checkpoint and its event exist together, and so do a message and its event.
fn writes_are_whole(history: &History) -> Violations {
    let subjects = |kind: &str, name: fn(&Value) -> &Value| -> BTreeSet<String> {
        let events = history.list("events").iter().filter(|event| event["kind"] == kind);
        events.map(|event| name(event).as_str().unwrap_or_default().to_owned()).collect()
    };
    let ids = |name: &str| -> BTreeSet<String> {
        history.list(name).iter().map(|one| one["id"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut found = Vec::new();
    for (rows, kind, name) in [
        ("checkpoints", "task.checkpointed", (|event| &event["data"]["checkpoint"]) as fn(&Value) -> &Value),
        ("messages", "message.sent", |event| &event["subject"]),
    ] {
        let (rows_found, events) = (ids(rows), subjects(kind, name));
        found.extend(
            rows_found.symmetric_difference(&events).map(|id| format!("{id} is not in both {rows} and events")),
        );
    }
    found
}

/// In the events of the store every claim has a higher epoch than the one before, and only the holder writes.
fn epochs_increase(history: &History) -> Violations {
    let mut holders: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    let mut found = Vec::new();
    for event in history.list("events") {
        let (Some(task), Some(epoch)) = (event["subject"].as_str(), event["data"]["epoch"].as_u64()) else { continue };
        let agent = event["data"]["agent"].as_str().unwrap_or_default();
        let known = holders.get(task).copied();
        match event["kind"].as_str().unwrap_or_default() {
            "task.claimed" => {
                let is_renewed = event["data"]["renewed"] == true && known == Some((epoch, agent));
                if !is_renewed && known.is_some_and(|(before, _)| before >= epoch) {
                    found.push(format!("{task} is granted with epoch {epoch} after {known:?}"));
                }
                holders.insert(task, (epoch, agent));
            }
            "task.checkpointed" | "task.completed" if known != Some((epoch, agent)) => {
                found.push(format!(
                    "event {} is by {agent} with epoch {epoch}, the holder is {known:?}",
                    event["sequence"]
                ));
            }
            _ => {}
        }
    }
    found.extend(granted_twice(history));
    found
}

/// No two agents got the same task with the same epoch.
fn granted_twice(history: &History) -> Violations {
    let mut holders: BTreeMap<(&str, u64), &Operation> = BTreeMap::new();
    let mut found = Vec::new();
    for operation in history.of_kind("claim") {
        let Some(granted) = operation.granted() else { continue };
        if let Some(other) = holders.insert(granted, operation)
            && other.does["agent"] != operation.does["agent"]
        {
            found.push(format!("{} and {} both hold {granted:?}", describe(other), describe(operation)));
        }
    }
    found
}

/// Every accepted write started before a higher epoch was granted.
fn accepted_writes_come_from_the_holder(history: &History) -> Violations {
    let granted: Vec<(&Operation, &str, u64)> = history
        .operations
        .iter()
        .filter_map(|claim| claim.granted().map(|(task, epoch)| (claim, task, epoch)))
        .collect();
    let mut found = Vec::new();
    for write in history.operations.iter().filter(|write| write.is_acknowledged()) {
        let Some((task, epoch)) = write.held() else { continue };
        let is_later = |(claim, claimed, newer): &&(&Operation, &str, u64)| {
            *claimed == task && *newer > epoch && claim.end < write.start
        };
        // A retry with the same key returns the first answer, at any time.
        let is_repeated = write.does["key"].is_string()
            && history.operations.iter().any(|first| first.does == write.does && first.start < write.start);
        if let Some((claim, ..)) = granted.iter().find(is_later)
            && !is_repeated
        {
            found.push(format!("{} although {} was granted before", describe(write), describe(claim)));
        }
    }
    found
}

/// The holder of a lease does not lose it before it expires, unless the holder released it or a person forced it.
fn leases_last(history: &History) -> Violations {
    let Some(lease) = history.lease else { return Vec::new() };
    let mut found = Vec::new();
    for refused in history.operations.iter().filter(|operation| operation.code == Some(5)) {
        let Some((task, epoch)) = refused.held() else { continue };
        let of_lease = |operation: &&Operation| {
            operation.number != refused.number
                && operation.start < refused.end
                && (operation.held() == Some((task, epoch)) || operation.granted() == Some((task, epoch)))
        };
        let own: Vec<&Operation> = history.operations.iter().filter(of_lease).collect();
        let is_given_up = own.iter().any(|one| ["done", "fail", "release"].contains(&one.kind()));
        let renewed = own.iter().filter(|one| one.is_acknowledged()).map(|one| one.start).max();
        if !is_given_up && renewed.is_some_and(|renewed| renewed.saturating_add(lease) > refused.end) {
            found.push(describe(refused));
        }
    }
    found
}

fn sequences_have_no_gaps(history: &History) -> Violations {
    let mut found = Vec::new();
    let mut time = String::new();
    for (event, expected) in history.list("events").iter().zip(1_u64..) {
        if event["sequence"] != expected {
            found.push(format!("event {expected} is missing: {}", event["sequence"]));
            break;
        }
        // Times in UTC with milliseconds are sorted as text.
        let at = event["time"].as_str().unwrap_or_default();
        if at < time.as_str() {
            found.push(format!("event {expected} is older than the one before"));
        }
        at.clone_into(&mut time);
    }
    found
}

/// Every answer to one key names the same record.
fn keys_have_one_answer(history: &History) -> Violations {
    let mut answers: BTreeMap<&str, (&Operation, &Value)> = BTreeMap::new();
    let mut found = Vec::new();
    for operation in history.operations.iter().filter(|operation| operation.is_acknowledged()) {
        let Some(key) = operation.does["key"].as_str() else { continue };
        let id = if operation.kind() == "checkpoint" {
            &operation.answer["checkpoint"]["id"]
        } else {
            &operation.answer["id"]
        };
        let (first, known) = *answers.entry(key).or_insert((operation, id));
        if known != id {
            found.push(format!("{} gave {known}, {} gave {id}", describe(first), describe(operation)));
        }
    }
    found
}

/// Of two messages from one sender to one recipient, the one that was acknowledged before the other was sent comes first.
fn messages_keep_their_order(history: &History) -> Violations {
    let place = |send: &Operation| history.list("messages").iter().position(|one| one["body"] == send.text("text"));
    // A message that is sent again with its key keeps its first position.
    let mut texts = BTreeSet::new();
    let first: Vec<&Operation> = history.of_kind("send").filter(|send| texts.insert(send.text("text"))).collect();
    let mut found = Vec::new();
    for (before, earlier) in history.of_kind("send").filter_map(|send| Some((send, place(send)?))) {
        let is_after = |send: &&&Operation| {
            before.is_acknowledged()
                && before.end < send.start
                && ["from", "to"].iter().all(|role| before.text(role) == send.text(role))
                && place(send).is_some_and(|later| later < earlier)
        };
        found.extend(
            first.iter().filter(is_after).map(|send| format!("{} is behind {}", describe(before), describe(send))),
        );
    }
    found
}

/// Healthy workers finished every task after the faults ended, and each task was completed once.
fn tasks_are_finished_once(history: &History) -> Violations {
    let mut completed: BTreeMap<&str, usize> = BTreeMap::new();
    for event in history.list("events").iter().filter(|event| event["kind"] == "task.completed") {
        *completed.entry(event["subject"].as_str().unwrap_or_default()).or_default() += 1;
    }
    let mut found = Vec::new();
    for task in history.list("tasks") {
        let count = completed.get(task["id"].as_str().unwrap_or_default()).copied().unwrap_or_default();
        if task["status"] != "completed" || count != 1 {
            found.push(format!("{} is {} and was completed {count} times", task["id"], task["status"]));
        }
    }
    found
}
