//! Hints of errors in the words of a client that calls tools.
//!
//! Operations name commands, because most of their callers use the command line.

/// Commands, and the tool that does the same. The first that fits counts.
const TOOLS: &[(&str, &str)] = &[
    ("way agent list", "tool status lists agents"),
    ("way list", "tool issues, do list, lists issues"),
    ("way msg inbox", "tool messages, do inbox, lists messages"),
    ("way msg send", "tool messages, do send, sends a message"),
    ("way ready", "tool issues, do ready, lists the issues that can be claimed"),
    ("way reopen", "tool issue, do reopen, opens it again"),
    ("way task claim", "tool next claims a task"),
    ("way task list", "tool status lists tasks"),
    ("way task show", "tool context shows a task"),
    ("way workflow list", "tool status lists workflows"),
];

/// Names the tool instead of a command. A command that no tool stands for is something for a person to run.
pub(super) fn for_tools(hint: &str) -> String {
    let Some(start) = command_in(hint) else { return hint.to_owned() };
    let command = &hint[start..];
    let is_called =
        |name: &str| command.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    match TOOLS.iter().find(|(name, _)| is_called(name)) {
        Some((_, tool)) => (*tool).to_owned(),
        None => format!("for a person: {hint}"),
    }
}

/// Returns where a command begins in a hint.
fn command_in(hint: &str) -> Option<usize> {
    let starts = hint.match_indices("way ").map(|(at, _)| at);
    // A word like "halfway" is none.
    let mut commands =
        starts.filter(|at| hint[..*at].chars().next_back().is_none_or(|before| !before.is_alphanumeric()));
    commands.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_tools_and_leave_other_commands_to_people() {
        for (hint, expected) in [
            ("way task list --workflow release", "tool status lists tasks"),
            (
                "way ready lists the issues that can be claimed",
                "tool issues, do ready, lists the issues that can be claimed",
            ),
            (
                "a person can take it away: way release x --force",
                "for a person: a person can take it away: way release x --force",
            ),
            (
                "workflow w is not started: way workflow start w",
                "for a person: workflow w is not started: way workflow start w",
            ),
            ("way listing", "for a person: way listing"),
            ("go halfway there", "go halfway there"),
            ("take another name", "take another name"),
        ] {
            assert_eq!(for_tools(hint), expected);
        }
    }
}
