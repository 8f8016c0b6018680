//! The layers of the configuration, and what a repository may say in it.

use waypost::Kind;
use waypost::machine::config::{Layer, Setting, key_named};

use crate::desk::{Desk, message_and_hints, refusal};

fn get(desk: &Desk, key: &str) -> Setting {
    desk.place().unwrap().config.get(key).unwrap()
}

#[test]
fn later_layers_override_earlier_ones() {
    let desk = Desk::new();
    let at = |desk: &Desk, value: &str, layer: Layer| {
        let setting = get(desk, "scope");
        assert_eq!((setting.value.to_string().as_str(), setting.layer), (value, layer));
        setting.origin
    };
    at(&desk, "repo", Layer::Default);
    desk.set_in(Layer::User, "scope", "global");
    at(&desk, "global", Layer::User);
    desk.set_in(Layer::Shared, "scope", "worktree");
    at(&desk, "worktree", Layer::Shared);
    desk.set("scope", "repo");
    let file = at(&desk, "repo", Layer::Private);
    assert_eq!(file, desk.path(".git/waypost/config.toml").to_str().unwrap());
    let with_variable = desk.with_variable("WAYPOST_SCOPE", "global");
    assert_eq!(at(&with_variable, "global", Layer::Environment), "WAYPOST_SCOPE");
    at(&with_variable.with_flag("scope=worktree"), "worktree", Layer::Flag);
    desk.unset("scope");
    at(&desk, "worktree", Layer::Shared);
    assert!(!desk.git(["status", "--porcelain"]).contains("lock"));
}

/// Files with something wrong, and what is said about it.
const WRONG: [(&str, &str); 6] = [
    ("scope = \n", "line 1"),
    ("ok = 1\n<<<<<<< HEAD\n", "line 2"),
    ("scope = 3\n", "string in quotes"),
    ("scope = 'x'\n", "repo | worktree | global"),
    ("[repos]\nadditional = 'one'\n", "list of paths"),
    ("[lease]\nttl = 'soon'\n", "30s"),
];

#[test]
fn a_file_of_the_user_with_something_wrong_is_reported_with_its_line_or_key() {
    let desk = Desk::new();
    desk.add("One");
    for file in [desk.path(".git/waypost/config.toml"), desk.sandbox.path("home/.waypost/config.toml")] {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (content, expected) in WRONG {
            desk.sandbox.write(&file, content);
            let said = refusal(Kind::Invalid, desk.place());
            assert!(said.contains(expected) && said.contains("config.toml"), "{content:?}: {said}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}

/// Others write the tracked file: a wrong setting of theirs costs a warning, and the valid ones beside it hold.
#[test]
fn a_wrong_setting_in_the_tracked_file_stops_nothing() {
    let desk = Desk::new();
    let file = desk.path(".waypost/config.toml");
    for (content, expected) in WRONG {
        desk.write(".waypost/config.toml", content);
        let warnings = desk.place().unwrap_or_else(|error| panic!("{}", message_and_hints(&error))).warnings;
        let named = warnings.iter().any(|line| line.contains("config.toml") && line.contains("ignored"));
        assert!(named && warnings.concat().contains(expected), "{content:?}: {warnings:?}");
        desk.add("Goes on");
    }
    desk.write(".waypost/config.toml", "prefix = 'shop'\nscope = 'x'\n[lease]\nttl = 3\n");
    assert_eq!(get(&desk, "prefix").value.to_string(), "shop");
    let warnings = desk.place().unwrap().warnings.concat();
    for key in ["scope in ", "lease.ttl in "] {
        assert_eq!(warnings.matches(key).count(), 1, "{warnings}");
    }
    // What is not a file at all.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let warnings = desk.warnings();
    assert!(warnings.iter().any(|line| line.contains("config.toml") && line.contains("ignored")), "{warnings:?}");
    std::fs::remove_dir(&file).unwrap();
    std::os::unix::fs::symlink("config.toml", &file).unwrap();
    assert_eq!(desk.list(serde_json::json!({})).len(), WRONG.len());
}

#[test]
fn unknown_keys_of_a_file_are_named_with_the_nearest_ones() {
    let desk = Desk::new();
    desk.write(".waypost/config.toml", "scoop = 1\n[ledger]\nhoem = 'x'\n");
    let warnings = desk.place().unwrap().warnings;
    let near = [("unknown key scoop", "did you mean scope?"), ("unknown key ledger.hoem", "did you mean ledger.home?")];
    for (key, hint) in near {
        assert!(warnings.iter().any(|line| line.contains(key) && line.contains(hint)), "{key}: {warnings:?}");
    }
}

#[test]
fn a_repository_cannot_set_personal_settings() {
    let desk = Desk::new();
    for name in ["workspaces.path", "store.network"] {
        assert!(key_named(name).unwrap().personal, "{name}");
    }
    desk.write(".waypost/config.toml", "[store]\nnetwork = 'allow'\n[workspaces]\npath = '/evil'\n");
    let place = desk.place().unwrap();
    let ignored = |key: &str| place.warnings.iter().any(|line| line.contains(key) && line.contains("is ignored"));
    assert!(ignored("store.network") && ignored("workspaces.path"), "{:?}", place.warnings);
    let (workspaces, _) = place.workspaces().unwrap().unwrap();
    assert_eq!(workspaces, desk.sandbox.path("home/.waypost/workspaces"));
}

#[test]
fn a_tracked_link_cannot_redirect_writes() {
    let desk = Desk::new();
    let victim = desk.sandbox.dir("victim");
    let link = desk.path(".waypost");
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    let check = |name: &str| refusal(Kind::Refused, desk.place().unwrap().check_tracked(name));
    check("config.toml");
    std::fs::remove_file(&link).unwrap();
    std::fs::create_dir(&link).unwrap();
    for name in ["config.toml", ".gitignore"] {
        std::os::unix::fs::symlink(victim.join("file"), link.join(name)).unwrap();
        check(name);
        std::fs::remove_file(link.join(name)).unwrap();
        assert_eq!(desk.place().unwrap().check_tracked(name).unwrap(), link.join(name));
    }
}

#[test]
fn a_path_in_a_file_means_the_same_from_any_current_directory() {
    let desk = Desk::new();
    let inside = desk.in_dir(desk.sandbox.dir("repo/sub"));
    let workspaces = |desk: &Desk| desk.place().unwrap().workspaces().unwrap().unwrap().0;
    desk.set("workspaces.path", "here");
    assert_eq!([workspaces(&desk), workspaces(&inside)], [desk.path("here"), desk.path("here")]);
    desk.set("workspaces.path", "~/there");
    assert_eq!(workspaces(&inside), desk.sandbox.path("home/there"));
}
