//! Decides which issues are ready, in which order, and why the others are not.
//!
//! This is the only place with these rules. They see issues through [`Issues`], so that they are the same for a file,
//! an index and the few lines of a test.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use super::vocabulary::Category;
use crate::seeded::seeded_bug;
use crate::time::Timestamp;

/// The label of issues that come first.
pub const DISCOVERED_BLOCKER: &str = "discovered:blocker";
/// The label of issues that come next.
pub const BASELINE_FAILURE: &str = "baseline-failure";
/// The label of issues that are listed as ready but never claimed automatically.
pub const NO_AUTO_CLAIM: &str = "no-auto-claim";

/// The part of an issue that the rules need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its id.
    pub id: String,
    /// The meaning of its status.
    pub category: Category,
    /// Its status as written, for explanations.
    pub status: String,
    /// Whether its type is epic.
    pub is_epic: bool,
    /// Whether it is pinned.
    pub is_pinned: bool,
    /// The word for a record that is not work, such as `agent`; see [`Issue::not_work`](super::issue::Issue::not_work).
    pub not_work: Option<String>,
    /// 0 (highest) to 4.
    pub priority: u8,
    /// Creation time.
    pub created_at: Option<Timestamp>,
    /// The time until which it is deferred.
    pub defer_until: Option<Timestamp>,
    /// Its labels.
    pub labels: Vec<String>,
    /// The issues that block it.
    pub blockers: Vec<String>,
    /// Its parent.
    pub parent_id: Option<String>,
}

/// The issues, as the rules see them.
pub trait Issues {
    /// Returns an issue of any open ledger.
    fn facts(&self, id: &str) -> Option<Cow<'_, Facts>>;
    /// Returns the meaning of an issue's status.
    fn category(&self, id: &str) -> Option<Category>;
    /// Tells whether an issue has a child that is neither finished nor deleted.
    fn has_open_child(&self, id: &str) -> bool;
    /// Returns the other agent that holds a lease on an issue.
    fn leased_to_another(&self, id: &str) -> Option<String>;
}

/// Parameters of the rules.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The current time.
    pub now: Timestamp,
    /// Whether a blocker that is in no ledger counts as done.
    pub ignore_unresolved: bool,
}

/// Why an issue is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its status is not an active one.
    Status(String),
    /// It is pinned.
    Pinned,
    /// It is a record of this kind, and not work.
    NotWork(String),
    /// It is deferred until this time.
    Deferred(Timestamp),
    /// This issue blocks it.
    BlockedBy(String),
    /// This issue blocks it, and is in no open ledger.
    Unresolved(String),
    /// This ancestor is blocked or deferred.
    Ancestor(String),
    /// It is an epic with open children: these are the work.
    OpenChildren,
    /// This agent holds a lease on it.
    Leased(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Status(status) => write!(f, "its status is {status}"),
            Reason::Pinned => f.write_str("it is pinned"),
            Reason::NotWork(kind) => write!(f, "it is not work: {kind}"),
            Reason::Deferred(until) => write!(f, "it is deferred until {until}"),
            Reason::BlockedBy(id) => write!(f, "it is blocked by {id}"),
            Reason::Unresolved(id) => write!(f, "it is blocked by {id}, which is in no ledger"),
            Reason::Ancestor(id) => write!(f, "its ancestor {id} is blocked or deferred"),
            Reason::OpenChildren => f.write_str("it is an epic with open children"),
            Reason::Leased(agent) => write!(f, "it is leased by {agent}"),
        }
    }
}

/// Returns every reason why an issue is not ready; none means that it is ready.
pub fn obstacles(facts: &Facts, issues: &impl Issues, rules: Rules) -> Vec<Reason> {
    Explainer::new(issues, rules).obstacles(facts)
}

/// Explains why issues are not ready. It looks up each ancestor once, however many descendants it has.
pub struct Explainer<'a, I> {
    issues: &'a I,
    rules: Rules,
    /// The nearest obstructed issue, from each issue upwards.
    nearest: Inherited<Option<String>>,
}

impl<'a, I: Issues> Explainer<'a, I> {
    /// Creates an explainer. The issues must not change while it is used.
    pub fn new(issues: &'a I, rules: Rules) -> Self {
        Explainer { issues, rules, nearest: Inherited::default() }
    }

    /// Returns every reason why an issue is not ready; none means that it is ready.
    pub fn obstacles(&mut self, facts: &Facts) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if facts.category != Category::Active {
            reasons.push(Reason::Status(facts.status.clone()));
        }
        if facts.is_pinned {
            reasons.push(Reason::Pinned);
        }
        reasons.extend(facts.not_work.clone().map(Reason::NotWork));
        if let Some(until) = deferred(facts, self.rules) {
            reasons.push(Reason::Deferred(until));
        }
        reasons.extend(unfinished(facts, self.issues, self.rules.ignore_unresolved));
        reasons.extend(self.obstructed_ancestor(facts).map(Reason::Ancestor));
        if facts.is_epic && self.issues.has_open_child(&facts.id) {
            reasons.push(Reason::OpenChildren);
        }
        reasons.extend(self.issues.leased_to_another(&facts.id).map(Reason::Leased));
        reasons
    }

    /// Returns an issue's nearest ancestor that is blocked or deferred.
    fn obstructed_ancestor(&mut self, facts: &Facts) -> Option<String> {
        let Explainer { issues, rules, nearest } = self;
        nearest.of(facts.parent_id.as_deref(), |id| {
            let ancestor = issues.facts(id)?;
            let is_waiting = || unfinished(&ancestor, *issues, rules.ignore_unresolved).next().is_some();
            let is_obstructed =
                !ancestor.category.is_over() && (deferred(&ancestor, *rules).is_some() || holds(&ancestor, is_waiting));
            Some(Link::Unknown(is_obstructed.then(|| id.to_owned()), ancestor.parent_id.clone()))
        })
    }
}

/// The order of ready issues; smaller comes first.
pub fn order(facts: &Facts) -> impl Ord + use<> {
    // An issue without a creation time counts as the oldest, so that it does not wait for ever.
    (urgency(&facts.labels), facts.priority, facts.created_at, facts.id.clone())
}

/// The rank that the labels give an issue; smaller comes first.
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

/// Tells whether a blocker with this status still blocks; `None` is a blocker that is in no ledger.
pub fn still_blocks(blocker: Option<Category>, ignore_unresolved: bool) -> bool {
    match blocker {
        Some(category) => !category.is_over() && !seeded_bug("ignore_blocker"),
        None => !ignore_unresolved,
    }
}

/// Returns the number of issues that block an issue directly.
pub fn waits_for(facts: &Facts, issues: &impl Issues, ignore_unresolved: bool) -> usize {
    unfinished(facts, issues, ignore_unresolved).count()
}

/// The issues that block an issue directly.
fn unfinished(facts: &Facts, issues: &impl Issues, ignore_unresolved: bool) -> impl Iterator<Item = Reason> {
    facts.blockers.iter().filter_map(move |id| {
        let category = issues.category(id);
        let reason = if category.is_some() { Reason::BlockedBy } else { Reason::Unresolved };
        still_blocks(category, ignore_unresolved).then(|| reason(id.clone()))
    })
}

/// Tells whether an unfinished issue holds back its children, whatever the time.
fn holds(facts: &Facts, is_waiting: impl FnOnce() -> bool) -> bool {
    // A pinned issue is meant to be seen, so it does not hold back its children.
    (facts.category == Category::Frozen && facts.status != "pinned") || is_waiting()
}

/// A value that an issue inherits from its ancestors.
pub trait Inherit: Clone + Default {
    /// Returns the value that the children of an issue inherit: `self` is the issue's own value.
    #[must_use]
    fn over(&self, inherited: &Self) -> Self;
}

/// The nearest ancestor counts.
impl Inherit for Option<String> {
    fn over(&self, inherited: &Self) -> Self {
        self.as_ref().or(inherited.as_ref()).cloned()
    }
}

/// How an issue and its ancestors hold back its children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// Whether one of them is blocked, or deferred without a time.
    pub is_held: bool,
    /// The time until which one of them is deferred.
    pub freed_at: Option<Timestamp>,
}

impl Hold {
    /// Returns the issue's own contribution, given its number of blockers. A finished issue contributes nothing.
    pub fn by(facts: &Facts, waits_for: usize) -> Hold {
        if facts.category.is_over() {
            return Hold::default();
        }
        Hold { is_held: holds(facts, || waits_for > 0), freed_at: facts.defer_until }
    }
}

impl Inherit for Hold {
    fn over(&self, inherited: &Self) -> Self {
        Hold { is_held: self.is_held || inherited.is_held, freed_at: self.freed_at.max(inherited.freed_at) }
    }
}

/// An issue from which its children inherit.
#[derive(Clone, Debug)]
pub enum Link<T> {
    /// The value that its children inherit.
    Known(T),
    /// Its own value, and its parent.
    Unknown(T, Option<String>),
}

/// Computes the values that issues inherit from their ancestors. It looks up each issue once, and does not recurse, so
/// that long chains do not overflow the stack.
///
/// In a cycle of parents each issue inherits from all of them, itself included.
#[derive(Debug)]
pub struct Inherited<T>(HashMap<String, T>);

impl<T> Default for Inherited<T> {
    fn default() -> Self {
        Inherited(HashMap::new())
    }
}

impl<T: Inherit> Inherited<T> {
    /// Returns the value that the children of an issue inherit. `look_up` returns `None` for an unknown id.
    pub fn of(&mut self, id: Option<&str>, mut look_up: impl FnMut(&str) -> Option<Link<T>>) -> T {
        // The path upwards from the issue, and each issue's position in it, to detect a cycle.
        let mut path: Vec<(String, T)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut next = id.map(str::to_owned);
        let mut inherited = T::default();
        while let Some(id) = next.take() {
            if let Some(known) = self.0.get(&id) {
                inherited = known.clone();
            } else if let Some(start) = places.get(&id) {
                // One pass around the cycle collects the values of all its issues.
                inherited = path[*start..].iter().rev().fold(inherited, |above, (_, own)| own.over(&above));
            } else {
                match look_up(&id) {
                    Some(Link::Known(known)) => inherited = known,
                    Some(Link::Unknown(own, parent)) => {
                        places.insert(id.clone(), path.len());
                        path.push((id, own));
                        next = parent;
                    }
                    None => {}
                }
            }
        }
        for (id, own) in path.into_iter().rev() {
            inherited = own.over(&inherited);
            self.0.insert(id, inherited.clone());
        }
        inherited
    }
}

/// The part of an issue's readiness that does not depend on the current time. It stays valid until an issue changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether it is ready once `wakes_at` has passed, apart from whether it is work.
    pub is_ready: bool,
    /// Number of issues that block it directly.
    pub waits_for: usize,
    /// The hold inherited from its ancestors.
    pub above: Hold,
    /// The time before which it is not ready: its own, or an ancestor's.
    pub wakes_at: Option<Timestamp>,
}

/// Computes the readiness of an issue, given its number of blockers. It agrees with [`obstacles`] at any time, for issues
/// that are work.
///
/// Leases change without a change to any issue, so they are not part of it.
pub fn standing(facts: &Facts, waits_for: usize, above: Hold, issues: &impl Issues) -> Standing {
    let is_free = facts.category == Category::Active && !facts.is_pinned && waits_for == 0 && !above.is_held;
    Standing {
        is_ready: is_free && !(facts.is_epic && issues.has_open_child(&facts.id)),
        waits_for,
        above,
        wakes_at: facts.defer_until.max(above.freed_at),
    }
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

        fn category(&self, id: &str) -> Option<Category> {
            self.issues.get(id).map(|facts| facts.category)
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
            not_work: None,
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
    fn a_blocker_blocks_until_it_is_closed_or_deleted() {
        check(&table([waiting("a", "b"), open("b")]), "a", &["it is blocked by b"]);
        check(&table([waiting("a", "b"), closed("b")]), "a", &[]);
        let deleted = Facts { category: Category::Deleted, ..open("b") };
        check(&table([waiting("a", "b"), deleted]), "a", &[]);
        let wip = Facts { category: Category::Wip, ..open("b") };
        check(&table([waiting("a", "b"), wip]), "a", &["it is blocked by b"]);
        check(&table([waiting("a", "b")]), "a", &["it is blocked by b, which is in no ledger"]);
        let lenient = Rules { ignore_unresolved: true, ..NOW };
        assert_eq!(obstacles(&waiting("a", "b"), &table([]), lenient), []);
    }

    #[test]
    fn a_blocked_or_deferred_ancestor_holds_back_its_descendants_at_any_depth() {
        let chain = |top: Facts| table([part("a", "b"), part("b", "c"), top, open("x")]);
        check(&chain(open("c")), "a", &[]);
        check(&chain(waiting("c", "x")), "a", &["its ancestor c is blocked or deferred"]);
        check(
            &chain(Facts { defer_until: Some(Timestamp::from_millis(2_000)), ..open("c") }),
            "a",
            &["its ancestor c is blocked or deferred"],
        );
        for status in ["deferred", "blocked", "on-ice"] {
            check(
                &chain(Facts { status: status.to_owned(), category: Category::Frozen, ..open("c") }),
                "a",
                &["its ancestor c is blocked or deferred"],
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
        // A cycle of parents, or a parent that is in no ledger, holds back no issue.
        check(&table([part("a", "b"), part("b", "a")]), "a", &[]);
        check(&table([part("a", "nowhere")]), "a", &[]);
    }

    #[test]
    fn only_an_epic_waits_for_its_children() {
        let epic = Facts { is_epic: true, ..open("e") };
        check(&table([epic.clone(), part("a", "e")]), "e", &["it is an epic with open children"]);
        check(&table([epic, Facts { parent_id: Some("e".to_owned()), ..closed("a") }]), "e", &[]);
        check(&table([open("t"), part("a", "t")]), "t", &[]);
    }

    #[test]
    fn deferred_pinned_and_leased_issues_are_not_ready() {
        let until = |millis| Facts { defer_until: Some(Timestamp::from_millis(millis)), ..open("a") };
        check(&table([until(1_001)]), "a", &["it is deferred until 1970-01-01T00:00:01.001Z"]);
        check(&table([until(1_000)]), "a", &[]);
        check(&table([Facts { is_pinned: true, ..open("a") }]), "a", &["it is pinned"]);
        let agent = Facts { not_work: Some("agent".to_owned()), ..open("a") };
        check(&table([agent]), "a", &["it is not work: agent"]);
        let mut leased = table([open("a")]);
        leased.leased.insert("a".to_owned(), "ag_x".to_owned());
        check(&leased, "a", &["it is leased by ag_x"]);
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

    fn standing_in(table: &Table, facts: &Facts, inherited: &mut Inherited<Hold>) -> Standing {
        let above = inherited.of(facts.parent_id.as_deref(), |id| {
            let ancestor = table.issues.get(id)?;
            Some(Link::Unknown(Hold::by(ancestor, waits_for(ancestor, table, false)), ancestor.parent_id.clone()))
        });
        standing(facts, waits_for(facts, table, false), above, table)
    }

    /// A long chain of parents that counts lookups.
    struct Chain {
        table: Table,
        lookups: std::cell::Cell<usize>,
    }

    impl Issues for Chain {
        fn facts(&self, id: &str) -> Option<Cow<'_, Facts>> {
            self.lookups.set(self.lookups.get() + 1);
            self.table.facts(id)
        }

        fn category(&self, id: &str) -> Option<Category> {
            self.lookups.set(self.lookups.get() + 1);
            self.table.category(id)
        }

        fn has_open_child(&self, _id: &str) -> bool {
            false
        }

        fn leased_to_another(&self, _id: &str) -> Option<String> {
            None
        }
    }

    const CHAIN_LENGTH: usize = 20_000;

    /// Each issue is the parent of the next; in a cycle the last one is the parent of the first. All are open, and the
    /// held one is blocked.
    fn chain(held: usize, is_cycle: bool) -> Chain {
        let name = |number: usize| format!("i{number:05}");
        let link = |number: usize| Facts {
            parent_id: number.checked_sub(1).or(is_cycle.then_some(CHAIN_LENGTH - 1)).map(name),
            blockers: if number == held { vec!["nowhere".to_owned()] } else { Vec::new() },
            ..open(&name(number))
        };
        Chain { table: table((0..CHAIN_LENGTH).map(link)), lookups: std::cell::Cell::default() }
    }

    #[test]
    fn each_ancestor_of_many_issues_is_looked_up_once() {
        for is_cycle in [false, true] {
            let chain = chain(5_000, is_cycle);
            let mut explainer = Explainer::new(&chain, NOW);
            // The deepest issue first, then all in order: either order could be the slow one.
            let ids = [CHAIN_LENGTH - 1].into_iter().chain(0..CHAIN_LENGTH).map(|number| format!("i{number:05}"));
            let ready = ids.filter(|id| explainer.obstacles(&chain.table.issues[id]).is_empty()).count();
            assert_eq!(ready, if is_cycle { 0 } else { 5_000 });
            assert!(chain.lookups.get() <= 2 * CHAIN_LENGTH, "{} lookups", chain.lookups.get());
        }
    }

    #[test]
    fn the_inherited_value_of_each_issue_is_computed_once() {
        for is_cycle in [false, true] {
            let chain = chain(5_000, is_cycle);
            let mut inherited = Inherited::default();
            let mut lookups = 0;
            let mut held = 0;
            for facts in chain.table.issues.values().rev() {
                let above = inherited.of(facts.parent_id.as_deref(), |id| {
                    lookups += 1;
                    let facts = chain.table.issues.get(id)?;
                    Some(Link::Unknown(Hold::by(facts, facts.blockers.len()), facts.parent_id.clone()))
                });
                held += usize::from(above.is_held);
            }
            assert_eq!(held, if is_cycle { CHAIN_LENGTH } else { CHAIN_LENGTH - 5_001 });
            assert!(lookups <= CHAIN_LENGTH, "{lookups} lookups");
        }
    }

    #[test]
    fn the_nearest_obstructed_ancestor_is_named_even_in_a_cycle() {
        let issues = [part("a", "b"), part("b", "c"), part("c", "d"), part("d", "b")];
        let mut table = table(issues);
        table.issues.get_mut("d").unwrap().blockers = vec!["nowhere".to_owned()];
        for id in ["a", "b", "c"] {
            check(&table, id, &["its ancestor d is blocked or deferred"]);
        }
        table.issues.get_mut("b").unwrap().blockers = vec!["nowhere".to_owned()];
        check(&table, "a", &["its ancestor b is blocked or deferred"]);
        check(&table, "c", &["its ancestor d is blocked or deferred"]);
    }

    /// The rules again, written as plainly as possible, as a reference.
    fn reference(id: &str, table: &Table) -> bool {
        let blocked = |facts: &Facts| {
            facts.blockers.iter().any(|blocker| {
                table
                    .issues
                    .get(blocker)
                    .is_none_or(|blocker| !matches!(blocker.category, Category::Done | Category::Deleted))
            })
        };
        let deferred = |facts: &Facts| {
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
            if !matches!(parent.category, Category::Done | Category::Deleted) && (blocked(parent) || deferred(parent)) {
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
        fn readiness_equals_the_reference(issues in prop::collection::vec(any_facts(), 1..8), leased in prop::option::of(0_u8..7)) {
            let mut table = table(issues);
            if let Some(number) = leased {
                table.leased.insert(format!("i{number}"), "another".to_owned());
            }
            for facts in table.issues.values() {
                prop_assert_eq!(obstacles(facts, &table, NOW).is_empty(), reference(&facts.id, &table), "{}", &facts.id);
                let standing = standing_in(&table, facts, &mut Inherited::default());
                let is_ready = standing.is_ready
                    && standing.wakes_at.is_none_or(|wakes_at| wakes_at <= NOW.now)
                    && !table.leased.contains_key(&facts.id);
                prop_assert_eq!(is_ready, reference(&facts.id, &table), "{:?}", standing);
            }
        }
    }
}
