//! The rules for every history, one function each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::history::{History, Operation};

/// Exit codes of refused commands, which have no effect.
const REFUSALS: [i64; 5] = [3, 4, 5, 6, 7];

/// The violations of a rule.
type Violations = Vec<String>;

/// A rule: returns its violations in a history.
type Rule = fn(&History) -> Violations;

/// Returns every violation of every rule.
pub(crate) fn check(history: &History) -> Violations {
    let rules: [(&str, Rule); 15] = [
        ("exit code", exit_codes),
        ("acknowledged write lost", acknowledged_writes_are_present),
        ("refused write happened", refused_writes_are_absent),
        ("written twice", writes_happen_once),
        ("overwritten value came back", last_values_stay),
        ("half a write", writes_are_whole),
        ("second holder", epochs_increase),
        ("stale write accepted", accepted_writes_come_from_the_holder),
        ("lease lost early", leases_last),
        ("gap in the history", sequences_have_no_gaps),
        ("key with two answers", keys_have_one_answer),
        ("message order", messages_keep_their_order),
        ("message shown again", acknowledged_messages_are_gone),
        ("impossible event", events_follow_from_those_before),
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
        "fail" => under_lease(&["task.failed"]),
        "release" => under_lease(&["task.released"]),
        "heartbeat" => {
            let (task, epoch) = operation.held()?;
            let is_it = |one: &Value| one[0] == task && one[1] == epoch;
            let renewed = |event: &&Value| list(&event["data"]["renewed"]).iter().any(is_it);
            // A lease can be renewed often.
            Some(history.list("events").iter().filter(renewed).count().min(1))
        }
        "ack" => {
            let is_it = |one: &&Value| one["id"] == operation.does["message"] && one["state"] == "acted";
            Some(history.list("messages").iter().filter(is_it).count())
        }
        "send" => Some(history.list("messages").iter().filter(|message| message["body"] == text).count()),
        "add" => Some(history.list("issues").iter().filter(|issue| issue["title"] == text).count()),
        "comment" => Some(issue().flat_map(|issue| list(&issue["comments"])).filter(|one| one["text"] == text).count()),
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
    // Another operation with the same text, key or lease may have written it, and another agent may have closed an issue.
    let is_another = |operation: &Operation| {
        let same = |other: &&Operation| {
            let fields = ["kind", "task", "epoch", "text", "issue", "message"];
            other.number != operation.number && fields.iter().all(|field| other.does[field] == operation.does[field])
        };
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

/// A field has the value of a write that no later acknowledged write has overwritten. A list has or lacks an item likewise.
fn last_values_stay(history: &History) -> Violations {
    let mut fields: BTreeMap<String, Vec<&Operation>> = BTreeMap::new();
    for set in history.of_kind("set").filter(|set| !set.code.is_some_and(|code| REFUSALS.contains(&code))) {
        let place = format!("{} {} {}", set.text("issue"), set.text("field"), set.text("item"));
        fields.entry(place).or_default().push(set);
    }
    let mut found = Vec::new();
    for writes in fields.values() {
        let is_overwritten =
            |write: &Operation| writes.iter().any(|later| later.is_acknowledged() && write.end < later.start);
        let first = writes[0];
        let empty = if first.does["item"].is_null() { json!("") } else { json!(false) };
        let mut possible: Vec<&Value> =
            writes.iter().filter(|write| !is_overwritten(write)).map(|write| &write.does["value"]).collect();
        if !writes.iter().any(|write| write.is_acknowledged()) {
            possible.push(&empty);
        }
        let value = final_value(history, first);
        if !possible.contains(&&value) {
            found.push(format!("{} leaves {value}, not one of {possible:?}", describe(first)));
        }
    }
    found
}

/// Returns the value that the field of a write has in the end.
fn final_value(history: &History, set: &Operation) -> Value {
    let issue = history.list("issues").iter().find(|issue| issue["id"] == set.does["issue"]).unwrap_or(&Value::Null);
    let (value, item) = (&issue[set.text("field")], &set.does["item"]);
    if item.is_null() {
        return json!(value.as_str().unwrap_or_default());
    }
    json!(list(value).iter().any(|one| one == item || one["depends_on_id"] == *item))
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
        let answer = &operation.answer;
        // Over MCP a checkpoint has a number.
        let ids = [&answer["checkpoint"]["id"], &answer["id"], &answer["number"]];
        let id = ids.into_iter().find(|id| !id.is_null()).unwrap_or(&Value::Null);
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

/// An inbox shows no message that its recipient acknowledged before.
fn acknowledged_messages_are_gone(history: &History) -> Violations {
    let acks: Vec<&Operation> = history.of_kind("ack").filter(|ack| ack.is_acknowledged()).collect();
    let mut found = Vec::new();
    for inbox in history.of_kind("inbox") {
        let is_shown = |ack: &&&Operation| {
            ack.end < inbox.start && list(&inbox.answer).iter().any(|one| one["id"] == ack.does["message"])
        };
        found.extend(acks.iter().filter(is_shown).map(|ack| format!("{} although {}", describe(inbox), describe(ack))));
    }
    found
}

/// Every change of a task starts from the values that the events before left, ends with those of the final state, and
/// counts one attempt at most. Every claim takes a task that could be claimed, and no less urgent one.
fn events_follow_from_those_before(history: &History) -> Violations {
    let choosers: BTreeSet<&str> = history.of_kind("claim").map(|claim| claim.text("agent")).collect();
    let (mut store, mut found) = (Replay::default(), Vec::new());
    for event in history.list("events") {
        let is_choice = choosers.contains(event["actor"].as_str().unwrap_or_default());
        let claimed = event["kind"] == "task.claimed" && event["data"]["renewed"] != true;
        if let Some(wrong) = claimed.then(|| store.objection(event, is_choice)).flatten() {
            found.push(format!("event {} claims {wrong}", event["sequence"]));
        }
        found.extend(store.apply(event).map(|wrong| format!("event {}: {wrong}", event["sequence"])));
    }
    for task in history.list("tasks") {
        let replayed = store.tasks.get(&task["id"].to_string()).and_then(Value::as_object).into_iter().flatten();
        // The workspace of a task is in the events of its jobs.
        let is_wrong = |(field, value): &(&String, &Value)| *field != "workspace_id" && task[*field] != **value;
        for (field, value) in replayed.filter(is_wrong) {
            found.push(format!("{} has {field} {}, after its events it is {value}", task["id"], task[field]));
        }
    }
    found
}

/// Tasks and agents as the events so far left them, by their ids as JSON.
#[derive(Default)]
struct Replay {
    tasks: BTreeMap<String, Value>,
    blockers: BTreeMap<String, Vec<String>>,
    capabilities: BTreeMap<String, Value>,
    /// The limits of workflows.
    limits: BTreeMap<String, u64>,
}

impl Replay {
    /// Applies an event. Returns what is wrong with it.
    fn apply(&mut self, event: &Value) -> Option<String> {
        let (subject, data) = (event["subject"].to_string(), &event["data"]);
        let after = &data["after"];
        match event["kind"].as_str().unwrap_or_default() {
            "task.added" => drop(self.tasks.insert(subject.clone(), after.clone())),
            "task.dependency_added" => {
                self.blockers.entry(subject.clone()).or_default().push(after["depends_on"].to_string());
            }
            "workflow.created" => {
                self.limits.extend(after["max_parallel"].as_u64().map(|max| (subject.clone(), max)));
            }
            "agent.registered" => {
                let changed = [&after["capabilities"], &data["changed"]["capabilities"][1]];
                for capabilities in changed.into_iter().filter(|changed| changed.is_array()) {
                    self.capabilities.insert(subject.clone(), capabilities.clone());
                }
            }
            _ => {}
        }
        let task = self.tasks.get_mut(&subject)?;
        for (field, change) in data["changed"].as_object()? {
            if task[field] != change[0] {
                return Some(format!("{field} was {}, not {}", task[field], change[0]));
            }
            if field == "attempts" && change[1].as_u64() != change[0].as_u64().map(|before| before + 1) {
                return Some(format!("the number of attempts becomes {change}"));
            }
            task[field] = change[1].clone();
        }
        None
    }

    /// Returns why the claim of an event was wrong. `is_choice` if the agent named no task.
    fn objection(&self, event: &Value, is_choice: bool) -> Option<String> {
        let (id, agent) = (event["subject"].to_string(), event["data"]["agent"].to_string());
        let task = self.tasks.get(&id)?;
        if !self.is_ready(&id) {
            return Some(format!("{id}, which is {} and waits for {:?}", task["status"], self.blockers.get(&id)));
        }
        if !self.is_able(&agent, task) {
            return Some(format!("{id}, which needs {}", task["capabilities"]));
        }
        if self.is_full(task) {
            return Some(format!("{id}, although too many tasks of its workflow are in progress"));
        }
        let is_more_urgent = |(other, one): &(&String, &Value)| {
            one["priority"].as_i64() < task["priority"].as_i64()
                && self.is_ready(other)
                && self.is_able(&agent, one)
                && !self.is_full(one)
        };
        let urgent = self.tasks.iter().find(is_more_urgent).filter(|_| is_choice);
        urgent.map(|(other, _)| format!("{id}, although {other} is more urgent"))
    }

    fn is_ready(&self, id: &str) -> bool {
        let status = |id: &str| &self.tasks[id]["status"];
        status(id) == "pending" && self.blockers.get(id).into_iter().flatten().all(|on| status(on) == "completed")
    }

    fn is_able(&self, agent: &str, task: &Value) -> bool {
        let own = self.capabilities.get(agent).map_or(&[][..], list);
        list(&task["capabilities"]).iter().all(|needed| own.contains(needed))
    }

    fn is_full(&self, task: &Value) -> bool {
        let is_running = |one: &&Value| one["workflow_id"] == task["workflow_id"] && one["status"] == "in_progress";
        let running = self.tasks.values().filter(is_running).count() as u64;
        self.limits.get(&task["workflow_id"].to_string()).is_some_and(|max| running >= *max)
    }
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
