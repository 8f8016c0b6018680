//! Which issues can be worked on now, in which order, and why the others cannot.
//!
//! One table of rules, here and nowhere else. It sees issues through [`Issues`], so that it means the same over a file,
//! an index or a test's few lines.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use super::vocabulary::Category;
use crate::time::Timestamp;

/// Comes before everything else.
pub const DISCOVERED_BLOCKER: &str = "discovered:blocker";
/// Comes next.
pub const BASELINE_FAILURE: &str = "baseline-failure";
/// Is listed, but not chosen for anybody.
pub const NO_AUTO_CLAIM: &str = "no-auto-claim";

/// As much of an issue as the rules ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its id.
    pub id: String,
    /// What its status means.
    pub category: Category,
    /// Its status in words, for explanations.
    pub status: String,
    /// Whether its type is epic.
    pub is_epic: bool,
    /// Whether it is pinned.
    pub is_pinned: bool,
    /// 0 (highest) to 4.
    pub priority: u8,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// Until when it is set aside.
    pub defer_until: Option<Timestamp>,
    /// Its labels.
    pub labels: Vec<String>,
    /// What it waits for.
    pub blockers: Vec<String>,
    /// What it is a part of.
    pub parent_id: Option<String>,
}

/// The issues, as the rules see them.
pub trait Issues {
    /// Returns an issue of any ledger that is read.
    fn facts(&self, id: &str) -> Option<Cow<'_, Facts>>;
    /// Tells whether an issue has a child that is not over.
    fn has_open_child(&self, id: &str) -> bool;
    /// Returns who else works on an issue now.
    fn leased_to_another(&self, id: &str) -> Option<String>;
}

/// How the rules are applied.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The moment.
    pub now: Timestamp,
    /// Whether a blocker that is in no ledger counts as done.
    pub ignore_unresolved: bool,
}

/// Why an issue is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its status does not allow it.
    Status(String),
    /// Somebody pinned it.
    Pinned,
    /// It is set aside until then.
    Deferred(Timestamp),
    /// It waits for this issue.
    BlockedBy(String),
    /// It waits for this issue, which is in no ledger that is read.
    Unresolved(String),
    /// This issue, which it is a part of, waits or is set aside.
    Ancestor(String),
    /// It is an epic with open parts: they are the work.
    OpenChildren,
    /// This agent works on it.
    Leased(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Status(status) => write!(f, "its status is {status}"),
            Reason::Pinned => f.write_str("it is pinned"),
            Reason::Deferred(until) => write!(f, "it is set aside until {until}"),
            Reason::BlockedBy(id) => write!(f, "it waits for {id}"),
            Reason::Unresolved(id) => write!(f, "it waits for {id} which is in no ledger"),
            Reason::Ancestor(id) => write!(f, "it is a part of {id} which waits or is set aside"),
            Reason::OpenChildren => f.write_str("it is an epic with open parts"),
            Reason::Leased(agent) => write!(f, "{agent} works on it"),
        }
    }
}

/// Returns everything that keeps an issue from being ready; nothing means that it is.
pub fn obstacles(facts: &Facts, issues: &impl Issues, rules: Rules) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if facts.category != Category::Active {
        reasons.push(Reason::Status(facts.status.clone()));
    }
    if facts.is_pinned {
        reasons.push(Reason::Pinned);
    }
    if let Some(until) = deferred(facts, rules) {
        reasons.push(Reason::Deferred(until));
    }
    reasons.extend(unfinished(facts, issues, rules));
    reasons.extend(obstructed_ancestor(facts, issues, rules).map(Reason::Ancestor));
    if facts.is_epic && issues.has_open_child(&facts.id) {
        reasons.push(Reason::OpenChildren);
    }
    reasons.extend(issues.leased_to_another(&facts.id).map(Reason::Leased));
    reasons
}

/// The order of ready issues; smaller comes first.
pub fn order(facts: &Facts) -> impl Ord + use<> {
    // One that does not say when it was made is as old as can be: it must not wait for ever.
    (urgency(&facts.labels), facts.priority, facts.created_at, facts.id.clone())
}

/// What labels say about the order; smaller comes first.
pub fn urgency(labels: &[String]) -> u8 {
    let has = |label: &str| labels.iter().any(|known| known == label);
    if has(DISCOVERED_BLOCKER) {
        0
    } else if has(BASELINE_FAILURE) {
        1
    } else {
        2
    }
}

fn deferred(facts: &Facts, rules: Rules) -> Option<Timestamp> {
    facts.defer_until.filter(|until| *until > rules.now)
}

/// What an issue itself waits for.
fn unfinished(facts: &Facts, issues: &impl Issues, rules: Rules) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for id in &facts.blockers {
        match issues.facts(id) {
            Some(blocker) if !blocker.category.is_over() => reasons.push(Reason::BlockedBy(id.clone())),
            Some(_) => {}
            None if rules.ignore_unresolved => {}
            None => reasons.push(Reason::Unresolved(id.clone())),
        }
    }
    reasons
}

/// Returns the nearest of an issue's ancestors that waits or is set aside.
fn obstructed_ancestor(facts: &Facts, issues: &impl Issues, rules: Rules) -> Option<String> {
    let is_held = |ancestor: &Facts| {
        // One that is pinned is there to be seen, and not set aside.
        (ancestor.category == Category::Frozen && ancestor.status != "pinned")
            || deferred(ancestor, rules).is_some()
            || !unfinished(ancestor, issues, rules).is_empty()
    };
    // One that is over holds nobody, whatever else it says.
    ancestors(facts, issues)
        .find(|ancestor| !ancestor.category.is_over() && is_held(ancestor))
        .map(|ancestor| ancestor.id.clone())
}

/// Walks up from an issue, to what it is a part of and on.
fn ancestors<'a>(facts: &Facts, issues: &'a impl Issues) -> impl Iterator<Item = Cow<'a, Facts>> {
    let mut seen = BTreeSet::from([facts.id.clone()]);
    let mut next = facts.parent_id.clone();
    std::iter::from_fn(move || {
        // A file may say that an issue is its own grandparent. It ends there.
        let id = next.take().filter(|id| seen.insert(id.clone()))?;
        let ancestor = issues.facts(&id)?;
        next.clone_from(&ancestor.parent_id);
        Some(ancestor)
    })
}

/// How an issue stands, whatever the hour: what can be kept until an issue changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether it is ready, once the hour has come.
    pub is_ready: bool,
    /// How many issues it waits for itself.
    pub waits_for: usize,
    /// Whether something it is a part of waits or is set aside without an hour.
    pub is_held: bool,
    /// The hour before which it is not ready: its own, or that of something it is a part of.
    pub wakes_at: Option<Timestamp>,
    /// The hour before which something it is a part of is set aside.
    pub freed_at: Option<Timestamp>,
}

/// Returns how an issue stands. It is ready at any time at which [`obstacles`] finds nothing, and only then.
///
/// Leases come and go without a change to any issue, so they are not part of it.
pub fn standing(facts: &Facts, issues: &impl Issues, ignore_unresolved: bool) -> Standing {
    let at_last = Rules { now: Timestamp::from_millis(i64::MAX), ignore_unresolved };
    let freed_at = ancestors(facts, issues)
        .filter(|ancestor| !ancestor.category.is_over())
        .filter_map(|ancestor| ancestor.defer_until)
        .max();
    Standing {
        is_ready: obstacles(facts, issues, at_last).iter().all(|reason| matches!(reason, Reason::Leased(_))),
        waits_for: unfinished(facts, issues, at_last).len(),
        is_held: obstructed_ancestor(facts, issues, at_last).is_some(),
        wakes_at: facts.defer_until.max(freed_at),
        freed_at,
    }
}

/// Tells whether a change of an issue may change how others stand.
pub fn touches_others(before: Option<&Facts>, after: Option<&Facts>) -> bool {
    let relevant = |facts: &Facts| {
        (facts.category, facts.status.clone(), facts.defer_until, facts.blockers.clone(), facts.parent_id.clone())
    };
    before.map(relevant) != after.map(relevant)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default, Debug)]
    struct Table {
        issues: BTreeMap<String, Facts>,
        leased: BTreeMap<String, String>,
    }

    impl Issues for Table {
        fn facts(&self, id: &str) -> Option<Cow<'_, Facts>> {
            self.issues.get(id).map(Cow::Borrowed)
        }

        fn has_open_child(&self, id: &str) -> bool {
            self.issues.values().any(|child| child.parent_id.as_deref() == Some(id) && !child.category.is_over())
        }

        fn leased_to_another(&self, id: &str) -> Option<String> {
            self.leased.get(id).cloned()
        }
    }

    const NOW: Rules = Rules { now: Timestamp::from_millis(1_000), ignore_unresolved: false };

    fn open(id: &str) -> Facts {
        Facts {
            id: id.to_owned(),
            category: Category::Active,
            status: "open".to_owned(),
            is_epic: false,
            is_pinned: false,
            priority: 2,
            created_at: None,
            defer_until: None,
            labels: Vec::new(),
            blockers: Vec::new(),
            parent_id: None,
        }
    }

    fn closed(id: &str) -> Facts {
        Facts { category: Category::Done, status: "closed".to_owned(), ..open(id) }
    }

    fn table(issues: impl IntoIterator<Item = Facts>) -> Table {
        Table { issues: issues.into_iter().map(|facts| (facts.id.clone(), facts)).collect(), ..Table::default() }
    }

    #[track_caller]
    fn check(table: &Table, id: &str, expected: &[&str]) {
        let reasons = obstacles(&table.issues[id], table, NOW);
        assert_eq!(reasons.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    fn waiting(id: &str, blocker: &str) -> Facts {
        Facts { blockers: vec![blocker.to_owned()], ..open(id) }
    }

    fn part(id: &str, parent: &str) -> Facts {
        Facts { parent_id: Some(parent.to_owned()), ..open(id) }
    }

    #[test]
    fn an_open_issue_is_ready_and_other_statuses_are_not() {
        check(&table([open("a")]), "a", &[]);
        check(&table([closed("a")]), "a", &["its status is closed"]);
        for (status, category) in super::super::vocabulary::Statuses::BUILT_IN {
            let facts = Facts { status: (*status).to_owned(), category: *category, ..open("a") };
            assert_eq!(obstacles(&facts, &table([]), NOW).is_empty(), *status == "open", "{status}");
        }
    }

    #[test]
    fn blockers_hold_until_they_are_over() {
        check(&table([waiting("a", "b"), open("b")]), "a", &["it waits for b"]);
        check(&table([waiting("a", "b"), closed("b")]), "a", &[]);
        let deleted = Facts { category: Category::Deleted, ..open("b") };
        check(&table([waiting("a", "b"), deleted]), "a", &[]);
        let wip = Facts { category: Category::Wip, ..open("b") };
        check(&table([waiting("a", "b"), wip]), "a", &["it waits for b"]);
        check(&table([waiting("a", "b")]), "a", &["it waits for b which is in no ledger"]);
        let lenient = Rules { ignore_unresolved: true, ..NOW };
        assert_eq!(obstacles(&waiting("a", "b"), &table([]), lenient), []);
    }

    #[test]
    fn an_ancestor_that_waits_or_is_set_aside_holds_its_parts_at_any_height() {
        let chain = |top: Facts| table([part("a", "b"), part("b", "c"), top, open("x")]);
        check(&chain(open("c")), "a", &[]);
        check(&chain(waiting("c", "x")), "a", &["it is a part of c which waits or is set aside"]);
        check(
            &chain(Facts { defer_until: Some(Timestamp::from_millis(2_000)), ..open("c") }),
            "a",
            &["it is a part of c which waits or is set aside"],
        );
        for status in ["deferred", "blocked", "on-ice"] {
            check(
                &chain(Facts { status: status.to_owned(), category: Category::Frozen, ..open("c") }),
                "a",
                &["it is a part of c which waits or is set aside"],
            );
        }
        check(&chain(Facts { status: "pinned".to_owned(), category: Category::Frozen, ..open("c") }), "a", &[]);
        check(&chain(closed("c")), "a", &[]);
        check(
            &chain(Facts {
                blockers: vec!["x".to_owned()],
                defer_until: Some(Timestamp::from_millis(2_000)),
                ..closed("c")
            }),
            "a",
            &[],
        );
        // A circle of parents, or one that is in no ledger, holds nobody.
        check(&table([part("a", "b"), part("b", "a")]), "a", &[]);
        check(&table([part("a", "nowhere")]), "a", &[]);
    }

    #[test]
    fn only_an_epic_waits_for_its_parts() {
        let epic = Facts { is_epic: true, ..open("e") };
        check(&table([epic.clone(), part("a", "e")]), "e", &["it is an epic with open parts"]);
        check(&table([epic, Facts { parent_id: Some("e".to_owned()), ..closed("a") }]), "e", &[]);
        check(&table([open("t"), part("a", "t")]), "t", &[]);
    }

    #[test]
    fn times_pins_and_leases_hold() {
        let until = |millis| Facts { defer_until: Some(Timestamp::from_millis(millis)), ..open("a") };
        check(&table([until(1_001)]), "a", &["it is set aside until 1970-01-01T00:00:01.001Z"]);
        check(&table([until(1_000)]), "a", &[]);
        check(&table([Facts { is_pinned: true, ..open("a") }]), "a", &["it is pinned"]);
        let mut leased = table([open("a")]);
        leased.leased.insert("a".to_owned(), "ag_x".to_owned());
        check(&leased, "a", &["ag_x works on it"]);
    }

    #[test]
    fn b17_labels_then_priority_then_age_then_id_decide_the_order() {
        let with = |id: &str, labels: &[&str], priority: u8, created: Option<i64>| Facts {
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            priority,
            created_at: created.map(Timestamp::from_millis),
            ..open(id)
        };
        let mut issues = [
            with("g", &["discovered:related"], 0, Some(9)),
            with("f", &[], 1, Some(5)),
            with("e", &[], 1, Some(4)),
            with("d", &[], 1, Some(4)),
            with("h", &[], 1, None),
            with("b", &[BASELINE_FAILURE], 4, Some(9)),
            with("a", &[DISCOVERED_BLOCKER, BASELINE_FAILURE], 4, Some(9)),
        ];
        issues.sort_by_key(order);
        assert_eq!(issues.each_ref().map(|facts| facts.id.as_str()), ["a", "b", "g", "h", "d", "e", "f"]);
    }

    /// The table of the design, written down again as plainly as possible: rows that say no.
    fn naive(id: &str, table: &Table) -> bool {
        let blocked = |facts: &Facts| {
            facts.blockers.iter().any(|blocker| {
                table
                    .issues
                    .get(blocker)
                    .is_none_or(|blocker| !matches!(blocker.category, Category::Done | Category::Deleted))
            })
        };
        let set_aside = |facts: &Facts| {
            facts.status == "deferred"
                || facts.status == "blocked"
                || facts.defer_until.is_some_and(|until| until > NOW.now)
        };
        let facts = &table.issues[id];
        if facts.category != Category::Active || facts.is_pinned || table.leased.contains_key(id) {
            return false;
        }
        if facts.defer_until.is_some_and(|until| until > NOW.now) || blocked(facts) {
            return false;
        }
        if facts.is_epic
            && table.issues.values().any(|child| {
                child.parent_id.as_deref() == Some(id) && !matches!(child.category, Category::Done | Category::Deleted)
            })
        {
            return false;
        }
        let mut above = Vec::new();
        let mut at = facts;
        while let Some(parent) = at.parent_id.as_ref().and_then(|parent| table.issues.get(parent)) {
            if parent.id == id || above.contains(&parent.id) {
                break;
            }
            if !matches!(parent.category, Category::Done | Category::Deleted) && (blocked(parent) || set_aside(parent))
            {
                return false;
            }
            above.push(parent.id.clone());
            at = parent;
        }
        true
    }

    fn any_facts() -> impl Strategy<Value = Facts> {
        let status = prop_oneof![4 => Just(("open", Category::Active)), 1 => Just(("in_progress", Category::Wip)), 2 => Just(("closed", Category::Done)), 1 => Just(("deferred", Category::Frozen)), 1 => Just(("tombstone", Category::Deleted))];
        let id = || (0_u8..7).prop_map(|number| format!("i{number}"));
        (
            id(),
            status,
            any::<bool>(),
            prop::option::weighted(0.2, 500_i64..1_500),
            prop::collection::vec(id(), 0..2),
            prop::option::of(id()),
            prop::bool::weighted(0.05),
        )
            .prop_map(|(id, (status, category), is_epic, defer, blockers, parent_id, is_pinned)| Facts {
                status: status.to_owned(),
                category,
                is_epic,
                is_pinned,
                defer_until: defer.map(Timestamp::from_millis),
                blockers,
                parent_id,
                ..open(&id)
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn readiness_equals_the_plain_table(issues in prop::collection::vec(any_facts(), 1..8), leased in prop::option::of(0_u8..7)) {
            let mut table = table(issues);
            if let Some(number) = leased {
                table.leased.insert(format!("i{number}"), "another".to_owned());
            }
            for facts in table.issues.values() {
                prop_assert_eq!(obstacles(facts, &table, NOW).is_empty(), naive(&facts.id, &table), "{}", &facts.id);
                let standing = standing(facts, &table, false);
                let is_ready = standing.is_ready
                    && standing.wakes_at.is_none_or(|wakes_at| wakes_at <= NOW.now)
                    && !table.leased.contains_key(&facts.id);
                prop_assert_eq!(is_ready, naive(&facts.id, &table), "{:?}", standing);
            }
        }
    }
}
