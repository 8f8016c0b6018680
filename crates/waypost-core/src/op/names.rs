//! The words that names of operations consist of, and names that changed.
//!
//! A name is a verb and a noun, such as `remove_task`, or a single word. Every act has one verb, so that a caller who knows
//! the name of one operation can guess the others.

/// A verb with which names of operations begin.
pub struct Verb {
    /// The verb.
    pub name: &'static str,
    /// The act that it means.
    pub act: &'static str,
    /// Other words for the same act. No operation begins with them.
    pub synonyms: &'static [&'static str],
}

const fn verb(name: &'static str, act: &'static str, synonyms: &'static [&'static str]) -> Verb {
    Verb { name, act, synonyms }
}

/// All verbs.
pub static VERBS: &[Verb] = &[
    verb("accept", "agrees to something that was proposed or found", &["approve"]),
    verb("ack", "marks messages as dealt with", &["acknowledge"]),
    verb("add", "makes a new record, alone or as a part of another", &["attach", "create", "insert", "make", "new"]),
    verb("answer", "replies to a question", &["respond"]),
    verb("append", "writes to the end of a log", &[]),
    verb("apply", "makes a workflow from a template", &["instantiate"]),
    verb("ask", "asks a person", &[]),
    verb("assign", "names the agent that is to do the work", &["delegate"]),
    verb("broadcast", "sends a message to several agents", &[]),
    verb("cancel", "ends work that is not wanted any more", &["abort", "kill", "stop"]),
    verb("choose", "computes a default", &[]),
    verb("claim", "takes the right to do work", &["checkout", "grab"]),
    verb("close", "ends an issue", &["resolve"]),
    verb("collect", "removes old records of every kind", &[]),
    verb("confirm", "records that a ledger received its news", &[]),
    verb("defer", "keeps changes for later", &[]),
    verb("deliver", "brings the work of a workspace to its repository", &["land", "push"]),
    verb("dump", "returns all data of a workflow", &["export"]),
    verb("end", "ends a lease", &[]),
    verb("expire", "applies what is due", &[]),
    verb("explain", "shows a record with the reasons for its state", &[]),
    verb("fail", "ends an attempt without success", &[]),
    verb("find", "counts records that an act would change", &[]),
    verb("finish", "ends work with success or with its result", &["complete", "done"]),
    verb("freeze", "stops all changes of a workflow", &[]),
    verb("heartbeat", "says that an agent is alive", &["ping", "renew"]),
    verb("introduce", "collects what a new agent needs to know from the store", &[]),
    verb("lease", "grants the lease of a claim", &[]),
    verb("list", "returns the records that match", &["query"]),
    verb("pause", "interrupts work that will go on", &["suspend"]),
    verb("plan", "gives a workflow its tasks", &[]),
    verb("prime", "introduces a new agent to its work", &[]),
    verb("propose", "offers an issue to a project", &[]),
    verb("read", "returns a message and marks it as read", &[]),
    verb("record", "writes down that something happened elsewhere", &["note"]),
    verb("register", "makes the caller known; a repetition renews it", &["begin", "join"]),
    verb("reject", "refuses something that was proposed", &["decline"]),
    verb("release", "gives up a claim", &["unclaim"]),
    verb("remove", "takes a record away", &["delete", "destroy", "detach", "drop", "erase", "rm"]),
    verb("reopen", "makes ended work open again", &[]),
    verb("repair", "corrects a damaged value", &["fix"]),
    verb("replan", "replaces the rest of a plan", &[]),
    verb("resume", "goes on with interrupted work", &["continue", "unpause"]),
    verb("retire", "ends the activity of a record that stays in the history", &["deactivate"]),
    verb("save", "makes a record, or replaces the one with the same name", &["put", "store", "upsert"]),
    verb("search", "returns the records with these words", &[]),
    verb("send", "sends a message to one agent", &[]),
    verb("show", "returns one record, or one page about it", &["describe", "fetch", "get", "summarize", "view"]),
    verb("skip", "ends a task that need not be done", &[]),
    verb("snapshot", "keeps the files of a workspace", &[]),
    verb("start", "begins to run something", &["launch", "run"]),
    verb("take", "receives a workflow from another store", &["import"]),
    verb("update", "changes fields of a record", &["change", "edit", "modify", "set"]),
    verb("withdraw", "takes back something that was proposed", &["retract"]),
];

/// Names that operations had in the version before, each with the present name. A server still answers to them.
pub static FORMER_NAMES: &[(&str, &str)] = &[
    ("begin_supervision", "register_supervisor"),
    ("blocked_issues", "list_blocked_issues"),
    ("change_workspace", "update_workspace"),
    ("checkpoint_task", "add_checkpoint"),
    ("comment_issue", "add_comment"),
    ("complete_merge", "record_merge"),
    ("create_job", "start_job"),
    ("create_job_record", "add_job_record"),
    ("create_workflow", "add_workflow"),
    ("create_workspace", "add_workspace"),
    ("delete_issue", "remove_issue"),
    ("depend_issue", "add_dependency"),
    ("get_context", "show_context"),
    ("get_log", "show_log"),
    ("get_status", "show_status"),
    ("get_work_status", "show_work_status"),
    ("next_tasks", "list_next_tasks"),
    ("note_job", "update_job"),
    ("note_machine", "record_machine"),
    ("read_stored_log", "show_stored_log"),
    ("ready_issues", "list_ready_issues"),
    ("summarize_workflow", "show_workflow_summary"),
    ("undepend_issue", "remove_dependency"),
];

/// Returns the present name of an operation that may be named as in the version before.
pub fn current_name(name: &str) -> &str {
    FORMER_NAMES.iter().find(|(former, _)| *former == name).map_or(name, |(_, current)| current)
}

/// Returns the name with the verb that operations use for the same act.
pub fn usual_name(name: &str) -> Option<String> {
    let (word, noun) = name.split_once('_')?;
    let verb = VERBS.iter().find(|verb| verb.synonyms.contains(&word))?;
    Some(format!("{}_{noun}", verb.name))
}
