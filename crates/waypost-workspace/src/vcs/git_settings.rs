//! Which settings of a repository git obeys when we run it.
//!
//! Git reads the repository's own configuration, and many of its settings run programs, send data or read files elsewhere.
//! Each version of git adds some. So only settings that are known to be harmless have an effect. For our commands, all
//! others get the value of the user's own configuration, else a value that switches them off.

use std::collections::{BTreeMap, BTreeSet};

use crate::surroundings;

/// Settings of every command. They override all configuration files, also what is written to them later.
const FIXED: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.fsync", "all"),
    ("core.fsyncMethod", "fsync"),
    ("advice.detachedHead", "false"),
    ("protocol.ext.allow", "never"),
    ("commit.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.defaultKeyCommand", "false"),
    ("submodule.recurse", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// Sections without a setting that runs a program, reads a file elsewhere, or decides where data is sent.
const HARMLESS_SECTIONS: &str = "
    advice am apply author blame branch checkout color column commit commitgraph committer extensions feature gc
    grep index log maintenance notes pack promisor pull push rebase receive repack rerere sparse splitindex
    stash status tag transfer uploadarchive url user versionsort worktree
";

/// Harmless settings of other sections, without the name in the middle: `remote.url` is also `remote.origin.url`.
const HARMLESS_SETTINGS: &str = "
    core.abbrev core.attributesfile core.autocrlf core.bare core.bigfilethreshold core.checkroundtripencoding
    core.checkstat core.commentchar core.commentstring core.commitgraph core.compression core.createobject
    core.deltabasecachelimit core.disambiguate core.eol core.excludesfile core.filemode core.filesreflocktimeout
    core.fscache core.hidedotfiles core.ignorecase core.ignorestat core.logallrefupdates core.longpaths
    core.loosecompression core.maxtreedepth core.multipackindex core.notesref core.packedgitlimit
    core.packedgitwindowsize core.packedrefstimeout core.precomposeunicode core.prefersymlinkrefs
    core.preloadindex core.protecthfs core.protectntfs core.quotepath core.repositoryformatversion
    core.restrictinheritedhandles core.safecrlf core.sharedrepository core.sparsecheckout
    core.sparsecheckoutcone core.splitindex core.symlinks core.trustctime core.untrackedcache
    core.usereplacerefs core.warnambiguousrefs core.whitespace core.worktree credential.usehttppath
    credential.username diff.algorithm diff.autorefreshindex diff.binary diff.colormoved diff.colormovedws
    diff.context diff.dirstat diff.funcname diff.ignoresubmodules diff.indentheuristic diff.interhunkcontext
    diff.mnemonicprefix diff.noprefix diff.relative diff.renamelimit diff.renames diff.statgraphwidth
    diff.submodule diff.suppressblankempty diff.wordregex diff.wserrorhighlight diff.xfuncname fetch.fsckobjects
    fetch.negotiationalgorithm fetch.output fetch.parallel fetch.prune fetch.prunetags fetch.recursesubmodules
    fetch.showforcedupdates fetch.unpacklimit fetch.writecommitgraph http.extraheader http.followredirects
    http.lowspeedlimit http.lowspeedtime http.maxrequests http.minsessions http.postbuffer http.version
    lfs.access lfs.allowincompletepush lfs.basictransfersonly lfs.batch lfs.concurrenttransfers lfs.fetchexclude
    lfs.fetchinclude lfs.fetchrecentalways lfs.fetchrecentcommitsdays lfs.fetchrecentrefsdays
    lfs.fetchrecentremoterefs lfs.lockignoredfiles lfs.locksverify lfs.pruneoffsetdays lfs.pruneremotetocheck
    lfs.pushurl lfs.repositoryformatversion lfs.setlockablereadonly lfs.skipdownloaderrors
    lfs.transfer.maxretries lfs.transfer.maxretrydelay lfs.url merge.branchdesc merge.conflictstyle
    merge.defaulttoupstream merge.directoryrenames merge.ff merge.log merge.name merge.recursive
    merge.renamelimit merge.renames merge.renormalize merge.stat merge.suppressdest merge.verbosity
    protocol.version remote.fetch remote.followremotehead remote.mirror remote.partialclonefilter
    remote.promisor remote.prune remote.prunetags remote.push remote.pushdefault remote.pushurl
    remote.skipdefaultupdate remote.skipfetchall remote.tagopt remote.url submodule.active
    submodule.alternateerrorstrategy submodule.alternatelocation submodule.branch submodule.fetchjobs
    submodule.fetchrecursesubmodules submodule.ignore submodule.propagatebranches submodule.url
    uploadpack.allowanysha1inwant uploadpack.allowfilter uploadpack.allowreachablesha1inwant
    uploadpack.allowrefinwant uploadpack.allowtipsha1inwant uploadpack.hiderefs uploadpack.keepalive
";

/// The arguments of the command line of our merge driver. Git replaces the placeholders with files.
pub(super) const DRIVER_ARGUMENTS: &str = " merge-driver %O %A %B %P";

/// The filters that git-lfs itself configures. Repositories that use git-lfs need them, and they are known to be harmless.
const LFS_FILTERS: &[&str] = &[
    "git-lfs clean -- %f",
    "git-lfs smudge -- %f",
    "git-lfs smudge --skip -- %f",
    "git-lfs filter-process",
    "git-lfs filter-process --skip",
];

/// Returns the settings of a command on a repository that only we write.
pub(super) fn fixed() -> Vec<(String, String)> {
    FIXED.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// What git's configuration files say, as far as it matters for our commands.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Allowed {
    /// The settings that override the configuration.
    pub(super) settings: Vec<(String, String)>,
    /// The filters that the repository configures and that do not run.
    pub(super) filters_off: BTreeSet<String>,
    /// The ssh command that the user's own configuration names.
    pub(super) ssh: Option<String>,
}

/// Decides about all settings, from the output of `git config --list --show-scope -z`.
pub(super) fn allowed(listed: &str) -> Allowed {
    let mut of_user: BTreeMap<&str, &str> = BTreeMap::new();
    let mut of_repository: BTreeMap<&str, &str> = BTreeMap::new();
    let mut helpers = vec![("credential.helper", "")];
    let mut has_repository_helper = false;
    let mut fields = listed.split('\0');
    while let (Some(scope), Some(assignment)) = (fields.next(), fields.next()) {
        let (key, value) = assignment.split_once('\n').unwrap_or((assignment, ""));
        let is_credential_helper = key.starts_with("credential.") && key.ends_with(".helper");
        match scope {
            // The user's own configuration is trusted.
            "system" | "global" if is_credential_helper => helpers.push((key, value)),
            "system" | "global" => drop(of_user.insert(key, value)),
            "local" | "worktree" if is_credential_helper => has_repository_helper = true,
            "local" | "worktree" => drop(of_repository.insert(key, value)),
            _ => {}
        }
    }
    let mut settings = fixed();
    let mut filters_off = BTreeSet::new();
    for (key, _) in of_repository.into_iter().filter(|(key, value)| !is_harmless(key, value)) {
        let replacement = of_user.get(key).copied().unwrap_or_else(|| switched_off(key));
        settings.push((key.to_owned(), replacement.to_owned()));
        if let Some(filter) = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.')).map(|(name, _)| name) {
            settings.push((format!("filter.{filter}.required"), "false".to_owned()));
            filters_off.insert(filter.to_owned());
        }
    }
    if has_repository_helper {
        // An empty helper resets the list; the user's own helpers follow it.
        settings.extend(helpers.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    }
    // Last, so that they win.
    settings.extend(fixed());
    Allowed { settings, filters_off, ssh: of_user.get("core.sshcommand").map(|command| (*command).to_owned()) }
}

/// Returns the settings that override a configuration, for the fuzz targets.
#[cfg(fuzzing)]
pub fn overrides(listed: &str) -> Vec<(String, String)> {
    allowed(listed).settings
}

/// Returns whether a setting of a repository may stay.
fn is_harmless(key: &str, value: &str) -> bool {
    let Some((section, rest)) = key.split_once('.') else { return true };
    let name = rest.rsplit('.').next().unwrap_or(rest);
    match section {
        // Git has read the included files already, and their settings are listed, too.
        "include" | "includeif" => true,
        "filter" => LFS_FILTERS.contains(&value),
        "merge" if name == "driver" => is_own_driver(value),
        "lfs" if rest.starts_with("extension.") || rest.starts_with("customtransfer.") => false,
        _ => {
            let setting = format!("{section}.{name}");
            HARMLESS_SECTIONS.split_whitespace().any(|known| known == section)
                || HARMLESS_SETTINGS.split_whitespace().any(|known| known == setting)
        }
    }
}

/// Returns whether a merge driver is this program.
fn is_own_driver(driver: &str) -> bool {
    let Ok(own) = surroundings::own_program().and_then(std::fs::canonicalize) else { return false };
    driver_program(driver).is_some_and(|program| std::fs::canonicalize(program).is_ok_and(|program| program == own))
}

/// Returns the program of a driver that Waypost configured.
pub(super) fn driver_program(driver: &str) -> Option<String> {
    let program = driver.strip_suffix(DRIVER_ARGUMENTS)?;
    let program = program.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(program);
    Some(program.replace("'\\''", "'"))
}

/// Returns a value that makes a setting do nothing.
fn switched_off(key: &str) -> &'static str {
    match key.rsplit_once('.') {
        // Without it, git would run a program of its own that lists refs.
        Some(("core", "alternaterefscommand")) => "true",
        // The driver fails, and the file is a conflict.
        Some((name, "driver")) if name.starts_with("merge.") => "false",
        // No verification would be the harm.
        Some((name, "sslverify")) if name.starts_with("http") => "true",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the effective value of a key, as git decides it: the last one.
    fn effective(listed: &[(&str, &str, &str)], key: &str) -> Option<String> {
        let entries = listed.iter().map(|(scope, key, value)| format!("{scope}\0{key}\n{value}\0"));
        let listed = entries.collect::<Vec<_>>().concat();
        let settings = allowed(&listed).settings;
        settings.into_iter().rev().find(|(known, _)| known.eq_ignore_ascii_case(key)).map(|(_, value)| value)
    }

    #[test]
    fn a_setting_that_is_not_known_to_be_harmless_has_no_effect() {
        for key in [
            "diff.x.command",
            "diff.x.textconv",
            "http.cookiefile",
            "http.https://x.test/.proxy",
            "remote.origin.vcs",
            "remote.origin.uploadpack",
            "core.gitproxy",
            "core.askpass",
            "lfs.extension.x.clean",
            "lfs.customtransfer.x.path",
            "lfs.standalonetransferagent",
            "trailer.x.command",
            "submodule.x.update",
            "added.by.anewgit",
            "sequence.editor",
            "fetch.bundleuri",
            "diff.external",
        ] {
            assert_eq!(effective(&[("local", key, "evil")], key).as_deref(), Some(""), "{key}");
        }
        assert_eq!(effective(&[("local", "http.sslverify", "false")], "http.sslverify").as_deref(), Some("true"));
        assert_eq!(effective(&[("local", "merge.x.driver", "evil %A")], "merge.x.driver").as_deref(), Some("false"));
        for key in ["core.fsmonitor", "core.hookspath", "gpg.program", "log.showsignature", "tag.gpgsign"] {
            assert_ne!(effective(&[("local", key, "evil")], key).as_deref(), Some("evil"), "{key}");
            assert!(effective(&[], key).is_some(), "{key} is set even if the repository sets it later");
        }
    }

    #[test]
    fn what_a_repository_needs_stays_as_it_is() {
        for (key, value) in [
            ("core.repositoryformatversion", "1"),
            ("extensions.objectformat", "sha256"),
            ("core.worktree", "../x"),
            ("remote.origin.url", "https://x.test/r.git"),
            ("remote.my.fork.fetch", "+refs/heads/*:refs/remotes/f/*"),
            ("branch.main.merge", "refs/heads/main"),
            ("user.email", "a@x.test"),
            ("url.https://x.test/.insteadof", "x:"),
            ("filter.lfs.process", "git-lfs filter-process"),
            ("core.autocrlf", "input"),
            ("submodule.a.url", "../a"),
            ("include.path", "more"),
            ("http.https://x.test/.extraheader", "Authorization: basic x"),
        ] {
            assert_eq!(effective(&[("local", key, value)], key), None, "{key}");
        }
    }

    #[test]
    fn the_users_own_settings_replace_those_of_the_repository() {
        let listed = [("global", "http.proxy", "mine"), ("local", "http.proxy", "theirs")];
        assert_eq!(effective(&listed, "http.proxy").as_deref(), Some("mine"));
        let listed = "global\0core.sshcommand\nmy ssh\0local\0core.sshcommand\nevil\0";
        assert_eq!(allowed(listed).ssh.as_deref(), Some("my ssh"));
        let listed = "global\0credential.helper\nmine\0local\0credential.https://x.test.helper\nevil\0";
        let settings = allowed(listed).settings;
        let helpers: Vec<&str> =
            settings.iter().filter(|(key, _)| key == "credential.helper").map(|(_, value)| value.as_str()).collect();
        assert_eq!(helpers, ["", "mine"]);
    }
}
