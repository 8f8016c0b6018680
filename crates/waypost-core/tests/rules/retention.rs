//! Retention: old records are removed, live ones and what they refer to stay, and summaries are kept.

use serde_json::json;
use waypost_core::Kind;
use waypost_core::id::MessageId;
use waypost_core::model::{EventQuery, Summary, SummaryKind};
use waypost_core::op::{
    AckMessage, CancelWorkflow, CollectGarbage, FindGarbage, ListEvents, ListInbox, ListSummaries, SendMessage,
    ShowWorkflow,
};
use waypost_core::work::plan::Plan;
use waypost_core::work::retention::Garbage;

use crate::harness::{PERSON, TestStore, claim, finish, message, workflow};

const DAY: i64 = 86_400_000;
/// 2026-01-10, in the middle of a month.
const START: i64 = 1_768_003_200_000;

struct Office(TestStore, i64);

impl Office {
    fn new() -> Office {
        let mut office = Office(TestStore::new(), START);
        office.set_now(START);
        office
    }

    fn set_now(&mut self, millis: i64) {
        self.0.set_now(millis);
        self.1 = millis;
    }

    fn age(&self, moment: i64) -> u64 {
        u64::try_from(self.1 - moment).unwrap()
    }

    /// Completes a workflow with one task, and returns its id.
    fn finished(&mut self, name: &str) -> String {
        let plan = Plan::from_text("only: work\n").unwrap();
        let id = self.0.write("ada", workflow(name, plan)).unwrap().workflow.id.to_string();
        self.0.write("ada", claim(Some("only"))).unwrap();
        self.0.write("ada", finish("only")).unwrap();
        id
    }

    fn send(&mut self, workflow: Option<&str>, text: &str) -> MessageId {
        let sent = SendMessage { workflow: workflow.map(str::to_owned), ..message("bob", text) };
        self.0.write("ada", sent).unwrap().id
    }

    fn count(&mut self, before: i64) -> Garbage {
        let age = self.age(before);
        self.0.read(PERSON, FindGarbage { older_than_ms: age }).unwrap().removable
    }

    /// Removes everything that may be removed. Returns how much, and the number of transactions.
    fn collect(&mut self, before: i64) -> (Garbage, u32) {
        let (mut removed, mut calls, age) = (Garbage::default(), 0, self.age(before));
        loop {
            let part = self.0.write(PERSON, CollectGarbage { older_than_ms: age }).unwrap();
            removed.add(part.removed);
            calls += 1;
            if !part.has_more {
                return (removed, calls);
            }
        }
    }

    fn summaries(&mut self) -> Vec<Summary> {
        self.0.read(PERSON, ListSummaries { subjects: Vec::new(), limit: 1_000 }).unwrap().summaries
    }
}

#[test]
fn old_finished_records_are_removed_and_summaries_stay() {
    let mut office = Office::new();
    office.0.write("bob", ListInbox { limit: 9, peek: false, after: None }).unwrap();
    let old = office.finished("old");
    let handled = office.send(None, "done?");
    office.0.write("bob", AckMessage { messages: vec![handled] }).unwrap();
    office.set_now(START + 10 * DAY);
    let recent = office.finished("recent");
    let live = office.0.write("ada", workflow("live", Plan::from_text("more: work\n").unwrap())).unwrap();
    office.set_now(START + 20 * DAY);

    let before = START + 5 * DAY;
    let planned = office.count(before);
    let expected = Garbage { workflows: 1, tasks: 1, messages: 1, ..Garbage::default() };
    assert_eq!(Garbage { events: 0, ..planned }, expected);
    let last = office.0.events().last().unwrap().sequence;
    let (removed, _) = office.collect(before);
    assert_eq!(removed, planned, "the count tells what is removed");
    assert_eq!(office.count(before), Garbage::default());

    let gone = office.0.read(PERSON, ShowWorkflow { workflow: old.clone() }).unwrap_err();
    assert_eq!(gone.kind(), Kind::NotFound);
    assert!(gone.to_string().contains("(old, completed) was removed from the store"), "{gone}");
    for kept in [&recent, &live.workflow.id.to_string()] {
        office.0.read(PERSON, ShowWorkflow { workflow: kept.clone() }).unwrap();
        let query = EventQuery { since: Some(0), subject: Some(kept.clone()), limit: 1, ..EventQuery::default() };
        let first = office.0.read(PERSON, ListEvents { query }).unwrap().events.remove(0);
        assert_eq!(first.kind, "workflow.created", "the history of what is kept is complete");
    }
    let events = office.0.events();
    assert!(events.iter().all(|event| event.subject != old), "{events:?}");
    let newest = events.last().unwrap();
    assert_eq!(newest.kind, "store.collected");
    assert!(newest.sequence > last, "numbers continue");

    let summaries = office.summaries();
    let of = |kind| summaries.iter().find(|summary| summary.kind == kind).unwrap();
    let workflow = of(SummaryKind::Workflow);
    assert_eq!((workflow.subject.as_str(), workflow.status.as_deref()), (old.as_str(), Some("completed")));
    assert_eq!(workflow.detail["tasks"], json!({ "completed": 1 }));
    assert_eq!(
        (of(SummaryKind::Messages).name.as_str(), &of(SummaryKind::Messages).detail),
        ("2026-01", &json!({ "messages": 1 }))
    );
    assert_eq!(of(SummaryKind::Events).detail["task.completed"], 1);
}

#[test]
fn counts_of_a_month_add_up_over_several_removals() {
    let mut office = Office::new();
    for day in [0, 2, 40] {
        office.set_now(START + day * DAY);
        office.finished(&format!("of day {day}"));
    }
    office.set_now(START + 50 * DAY);
    for before in [1, 3, 41] {
        let (removed, _) = office.collect(START + before * DAY);
        assert_eq!(removed.workflows, 1);
    }
    let summaries = office.summaries();
    let of = |subject: &str| summaries.iter().find(|summary| summary.subject == subject).unwrap();
    assert_eq!(of("events 2026-01").detail["task.completed"], 2);
    assert_eq!(of("events 2026-02").detail["task.completed"], 1);
    assert_eq!(of("events 2026-01").created_at.as_millis(), START);
    assert_eq!(of("events 2026-01").finished_at.as_millis(), START + 2 * DAY);
}

#[test]
fn many_records_are_removed_in_several_transactions() {
    let mut office = Office::new();
    for number in 0..120 {
        let plan = Plan::from_text("only: work\n").unwrap();
        office.0.write(PERSON, workflow(&format!("w{number}"), plan)).unwrap();
        office.0.write(PERSON, CancelWorkflow { workflow: format!("w{number}"), reason: None }).unwrap();
    }
    office.set_now(START + DAY);
    let planned = office.count(START + 1);
    let (removed, calls) = office.collect(START + 1);
    assert_eq!((removed, removed.workflows), (planned, 120));
    assert_eq!(calls, 3, "at most 50 workflows per transaction");
    assert_eq!(office.summaries().iter().filter(|summary| summary.kind == SummaryKind::Workflow).count(), 120);
}

#[test]
fn a_message_that_was_not_delivered_keeps_its_workflow() {
    let mut office = Office::new();
    office.0.write("bob", ListInbox { limit: 9, peek: false, after: None }).unwrap();
    office.finished("asked about");
    let question = office.send(Some("asked about"), "how was it?");
    office.set_now(START + DAY);
    assert_eq!(Garbage { events: 0, ..office.count(START + DAY) }, Garbage::default());
    // The list of the inbox presents it.
    let inbox = office.0.write("bob", ListInbox { limit: 9, peek: false, after: None }).unwrap();
    assert_eq!(inbox.messages[0].message.id, question);
    let (removed, _) = office.collect(START + DAY);
    assert_eq!((removed.workflows, removed.messages), (1, 0));
    let inbox = office.0.write("bob", ListInbox { limit: 9, peek: true, after: None }).unwrap();
    assert_eq!(inbox.messages[0].message.id, question, "it stays");
    assert_eq!(inbox.messages[0].message.workflow_id, None);
}
