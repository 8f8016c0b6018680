//! `way doctor`

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use waypost_core::clock::{MAX_AHEAD_MS, Reading, TOLERANCE_MS};
use waypost_core::ledger::audit::{Audit, CONFLICT_MARKER};
use waypost_core::model::{SandboxMode, WorkspaceStatus, Worktree};
use waypost_core::op::{ListWorktrees, RepairClock};
use waypost_core::store::Store;
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::{Error, Kind, Result};
use waypost_fs::{check_private, kernel_time_ms, sweep_temporaries};
use waypost_ledger::LedgerFile;
use waypost_workspace::sandbox::has_cgroups;
use waypost_workspace::workspaces::repair_mirror;
use waypost_workspace::{git_version, has_known_fixes, restore_ids, sandbox};

use crate::CommandContext;
use crate::ui::{BAD, DIM, GOOD, WARN, cell, header, styled};
use waypost::app::session::{OpenStore, Session};
use waypost::issues::ledger::Ledger;
use waypost::issues::{LARGE_LEDGER_BYTES, driver_problem};
use waypost::machine::place::{DOT_DIR, Place, STORE_FILE};
use waypost::work::{WorktreeState, survey_worktrees};

/// Check store, ledgers and worktrees, and suggest fixes
///
/// Exits with 9 if data is damaged, and with 8 if a store or ledger cannot be reached. A fix never loses data.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way doctor
  way doctor --fix")]
pub(crate) struct Args {
    /// Fix the problems that can be fixed safely
    #[arg(long)]
    fix: bool,
}

#[derive(Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    detail: String,
    /// The suggested fix, or the fix that was applied.
    action: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Fixed,
    Warning,
    /// The data is damaged.
    Broken,
    /// The data cannot be reached, so its state is unknown.
    #[serde(rename = "broken")]
    Unavailable,
}

impl Verdict {
    /// Returns the verdict for a check that returned an error.
    fn of(error: &Error) -> Verdict {
        if error.kind() == Kind::Unavailable { Verdict::Unavailable } else { Verdict::Broken }
    }
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let place = cx.place()?;
    place.store()?;
    let own = place
        .checkout
        .iter()
        .map(|checkout| &*checkout.private_dir)
        .chain(place.home.iter().map(|(home, _)| home.as_path()));
    own.for_each(sweep_temporaries);
    let mut findings = Vec::new();
    tools(&mut findings, &place);
    configuration(&mut findings, &place);
    sandbox_of_jobs(&mut findings, &place);
    let busy = cx.ui.busy("Examining the repository and its store");
    permissions(&mut findings, &place, args.fix);
    identity(&mut findings, &place, args.fix);
    if place.checkout.is_some() {
        ledgers(&mut findings, &place, args.fix);
    }
    // Failing to open the store is a finding, not an error of the command.
    match Session::open(place.clone()) {
        Ok(mut session) => {
            store(&mut findings, &session);
            server(&mut findings, &mut session)?;
            clock(&mut findings, &mut session, args.fix)?;
            worktrees(&mut findings, &mut session, args.fix)?;
            if !place.is_confined() {
                mirrors(&mut findings, &session, args.fix)?;
                workspaces(&mut findings, &mut session)?;
            }
        }
        Err(error) => findings.push(failed("store", &error)),
    }
    drop(busy);
    let code = exit_code(&findings);
    cx.ui.answer(&findings, |text| {
        let mut rows = vec![header(["STATE", "CHECK", "FINDING"])];
        for finding in &findings {
            let (style, word) = match finding.verdict {
                Verdict::Ok => (GOOD, "ok"),
                Verdict::Fixed => (GOOD, "fixed"),
                Verdict::Warning => (WARN, "warning"),
                Verdict::Broken | Verdict::Unavailable => (BAD, "broken"),
            };
            rows.push(vec![styled(style, word), cell(finding.check), cell(&finding.detail)]);
            if let Some(action) = &finding.action {
                rows.push(vec![cell(""), cell(""), styled(DIM, action)]);
            }
        }
        text.table(&rows);
    })?;
    Ok(code)
}

/// Returns the exit code of the worst finding. Damage takes precedence: it does not go away by itself.
fn exit_code(findings: &[Finding]) -> ExitCode {
    let found = |verdict| findings.iter().any(|finding| finding.verdict == verdict);
    match (found(Verdict::Broken), found(Verdict::Unavailable)) {
        (true, _) => ExitCode::from(Kind::Damaged.exit_code()),
        (false, true) => ExitCode::from(Kind::Unavailable.exit_code()),
        (false, false) => ExitCode::SUCCESS,
    }
}

/// Checks that the mirrors, which hold snapshots, survived the last power cut. Runs before any other use of them.
fn mirrors(findings: &mut Vec<Finding>, session: &Session, fix: bool) -> Result<()> {
    if session.place.home.is_none() {
        return Ok(());
    }
    for damaged in waypost::work::workspaces::damaged_mirrors(session)? {
        let mirror = damaged.mirror.display();
        let detail = format!("{mirror} is damaged: {}", damaged.files.join(", "));
        let (verdict, action) = match fix.then(|| repair_mirror(&damaged.mirror)) {
            None => (Verdict::Broken, "way doctor --fix repairs it and keeps its snapshots".to_owned()),
            Some(Err(error)) => (Verdict::Broken, error.full_message()),
            Some(Ok(lost)) if lost.is_empty() => {
                (Verdict::Fixed, format!("repaired; the damaged files are in {mirror}/damaged"))
            }
            Some(Ok(lost)) => {
                let lost = lost.join(", ");
                (Verdict::Broken, format!("repaired, but objects are missing for {lost}; see {mirror}/damaged"))
            }
        };
        findings.push(Finding { check: "mirrors", verdict, detail, action: Some(action) });
    }
    Ok(())
}

/// Checks for lost workspaces and for workspaces whose removal failed.
fn workspaces(findings: &mut Vec<Finding>, session: &mut Session) -> Result<()> {
    if session.place.home.is_none() {
        return Ok(());
    }
    waypost::work::jobs::recover_interrupted_work(session)?;
    let all = waypost::work::workspaces::list(session)?;
    let mut is_fine = true;
    for seen in &all {
        let workspace = &seen.workspace;
        let stuck = workspace.note.as_ref().filter(|note| note.starts_with(waypost::work::workspaces::REMOVAL_FAILED));
        let detail = match (workspace.status, stuck) {
            (WorkspaceStatus::Lost, _) => format!("{} no longer exists at {}", workspace.id, workspace.path.display()),
            (_, Some(note)) => format!("{}: {note}", workspace.id),
            _ => continue,
        };
        is_fine = false;
        let action = Some(format!("way ws rm {}", workspace.id));
        findings.push(Finding { check: "workspaces", verdict: Verdict::Warning, detail, action });
    }
    if is_fine && !all.is_empty() {
        findings.push(ok("workspaces", format!("{} without problems", all.len())));
    }
    Ok(())
}

fn failed(check: &'static str, error: &Error) -> Finding {
    let (detail, action) = (error.full_message(), error.hints().first().cloned());
    Finding { check, verdict: Verdict::of(error), detail, action }
}

fn ok(check: &'static str, detail: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Ok, detail: detail.into(), action: None }
}

fn tools(findings: &mut Vec<Finding>, place: &Place) {
    use waypost_core::model::Vcs;
    if !matches!(place.checkout.as_ref().map(|checkout| checkout.vcs), Some(Vcs::Git | Vcs::Jj)) {
        return;
    }
    findings.push(match git_version() {
        Ok(version) if has_known_fixes(&version) == Some(false) => Finding {
            check: "git",
            verdict: Verdict::Warning,
            detail: format!(
                "{version} may lack fixes: a cloned repository could run programs (CVE-2025-48384 and others)"
            ),
            action: Some("upgrade git, unless your distribution added the fixes to this version".to_owned()),
        },
        Ok(version) => ok("git", version),
        Err(error) => Finding {
            check: "git",
            verdict: Verdict::Warning,
            detail: error.full_message(),
            action: Some("install git: adding and removing worktrees needs it".to_owned()),
        },
    });
}

/// Reports what can restrict jobs on this machine.
fn sandbox_of_jobs(findings: &mut Vec<Finding>, place: &Place) {
    let mode = place.config.text("jobs.sandbox").and_then(|mode| mode.parse().ok());
    let limits = if has_cgroups() { "all processes of a job together" } else { "each process of a job" };
    let refused = sandbox::mechanism(mode.unwrap_or(SandboxMode::On)).err();
    findings.push(match refused {
        Some(error) => Finding {
            check: "sandbox",
            // Without the setting only jobs that come over HTTP are refused.
            verdict: if mode.is_some() { Verdict::Warning } else { Verdict::Ok },
            detail: format!("jobs cannot run in a sandbox: {}", error.full_message()),
            action: error.hints().first().cloned(),
        },
        None => ok("sandbox", format!("{} can restrict jobs; a memory limit holds for {limits}", sandbox::available())),
    });
}

fn configuration(findings: &mut Vec<Finding>, place: &Place) {
    if place.config.warnings.is_empty() {
        findings.push(ok("config", "no unknown keys"));
    }
    for warning in &place.config.warnings {
        findings.push(Finding {
            check: "config",
            verdict: Verdict::Warning,
            detail: warning.clone(),
            action: Some("correct or remove the key".to_owned()),
        });
    }
}

/// Checks that the ids of repository and worktree are readable. The store records them by path, so they can be
/// restored.
fn identity(findings: &mut Vec<Finding>, place: &Place, fix: bool) {
    let (Some(checkout), Err(problem)) =
        (&place.checkout, place.repository_id().map(drop).and_then(|()| place.worktree_id().map(drop)))
    else {
        findings.push(ok("identity", "known"));
        return;
    };
    let recorded = || -> Result<Option<Worktree>> {
        let known = Session::open(place.clone())?.call(ListWorktrees::all())?;
        let here = checkout.root.as_deref().unwrap_or(&checkout.shared_dir);
        Ok(known.worktrees.into_iter().rev().find(|row| row.path == here && row.removed_at.is_none()))
    };
    let (verdict, action) = match recorded() {
        Ok(Some(row)) if fix => {
            let dirs = (&checkout.private_dir, &checkout.worktree_private_dir);
            match restore_ids(dirs.0, &row.repository_id, dirs.1, &row.id) {
                Ok(()) => (Verdict::Fixed, format!("restored {} from the store", row.id)),
                Err(error) => (Verdict::of(&error), error.full_message()),
            }
        }
        Ok(Some(row)) => (Verdict::Broken, format!("way doctor --fix restores {} from the store", row.id)),
        Ok(None) => {
            (Verdict::Broken, "the store has no record of this worktree: delete the file to get a new id".to_owned())
        }
        Err(error) => (Verdict::Broken, error.full_message()),
    };
    findings.push(Finding { check: "identity", verdict, detail: problem.full_message(), action: Some(action) });
}

/// Checks that other users cannot read state files.
fn permissions(findings: &mut Vec<Finding>, place: &Place, fix: bool) {
    let mut paths: Vec<PathBuf> = Vec::new();
    if let Some(checkout) = &place.checkout {
        paths.push(checkout.private_dir.to_path_buf());
        // It is a link to the current index, which is beside it.
        paths.extend(checkout.private_dir.join("index.db").canonicalize());
    }
    if let Some((home, _)) = &place.home {
        paths.push(home.clone());
        paths.push(home.join("token"));
    }
    paths.extend(place.store_files());
    let mut is_fine = true;
    for path in paths.iter().filter(|path| path.exists()) {
        let Ok(Some(problem)) = check_private(path) else { continue };
        is_fine = false;
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        let fixed = fix && std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).is_ok();
        let fixed = fixed && matches!(check_private(path), Ok(None));
        findings.push(Finding {
            check: "permissions",
            verdict: if fixed { Verdict::Fixed } else { Verdict::Warning },
            detail: format!("{} {problem}", path.display()),
            action: Some(if fixed {
                format!("set to mode {mode:o}")
            } else {
                format!("chmod {mode:o}, or way doctor --fix")
            }),
        });
    }
    if is_fine {
        findings.push(ok("permissions", "state files are readable only by you"));
    }
}

fn store(findings: &mut Vec<Finding>, session: &Session) {
    let Some(store) = session.sqlite() else {
        findings.push(ok("store", format!("{} answers", session.choice.location)));
        return;
    };
    let damage = match store.check() {
        Ok(damage) => damage,
        Err(error) => return findings.push(failed("store", &error)),
    };
    if damage.is_empty() {
        findings.push(ok("store", format!("{} is intact", store.path().display())));
    }
    for damage in damage {
        findings.push(Finding {
            check: "store",
            verdict: Verdict::Broken,
            detail: damage.0,
            action: Some("move the file away together with its -wal and -shm files, then restore a backup".to_owned()),
        });
    }
}

/// Checks that `way` can detect a failover of the database server.
fn server(findings: &mut Vec<Finding>, session: &mut Session) -> Result<()> {
    if session.is_served() {
        return Ok(());
    }
    let OpenStore::Postgres(store) = session.store()? else { return Ok(()) };
    if store.server()?.is_none() {
        findings.push(Finding {
            check: "failover",
            verdict: Verdict::Warning,
            detail: "cannot detect a failover: the role may not read the server's system identifier and timeline"
                .to_owned(),
            action: Some(
                "grant the role pg_control_system(), or run way db accept-failover after every failover".to_owned(),
            ),
        });
    }
    Ok(())
}

/// Checks that the store's time is not ahead of the clock.
fn clock(findings: &mut Vec<Finding>, session: &mut Session, fix: bool) -> Result<()> {
    if session.is_served() {
        return Ok(());
    }
    let is_file = session.sqlite().is_some();
    let (reading, now) = {
        let mut tx = session.store()?.begin_read()?;
        (tx.clock()?, tx.now()?)
    };
    let wall = reading.wall();
    let kernel = Timestamp::from_millis(kernel_time_ms());
    let is_machine = is_file && matches!(reading, Reading::Machine { .. });
    let ahead = now.as_millis().saturating_sub(wall.as_millis());
    let (verdict, detail, action) =
        if is_machine && wall.as_millis().abs_diff(kernel.as_millis()) > TOLERANCE_MS.unsigned_abs() {
            let detail = format!("this process sees {wall}, but the machine's clock shows {kernel}");
            (Verdict::Warning, detail, "the store ignores it; run way without a faked clock")
        } else if ahead > MAX_AHEAD_MS {
            let detail = format!("the store's time is {now}, but the clock shows {wall}: an earlier clock was wrong");
            if fix {
                session.call(RepairClock {})?;
                (Verdict::Fixed, detail, "reset the store's time to the clock; leases have their normal length again")
            } else {
                (Verdict::Broken, detail, "if the clock is right (see date): way doctor --fix")
            }
        } else if ahead < -TOLERANCE_MS {
            let detail = format!("the clock shows {wall}, but the store's time is {now}");
            (Verdict::Warning, detail, "the store accepts the clock after 10 minutes")
        } else {
            return Ok(());
        };
    findings.push(Finding { check: "clock", verdict, detail, action: Some(action.to_owned()) });
    Ok(())
}

/// Checks the ledgers line by line. Problems stay in the file; users correct them by hand.
fn ledgers(findings: &mut Vec<Finding>, place: &Place, fix: bool) {
    let (ledger, unreachable) = match Ledger::narrowed(place, None, &[]) {
        Ok(found) => found,
        Err(error) => return findings.push(failed("ledger", &error)),
    };
    for warning in unreachable {
        let is_missing = warning.starts_with("the issues of ");
        let action = "if it is no longer needed: way config --remove-repo PATH".to_owned();
        let action = is_missing.then_some(action);
        findings.push(Finding { check: "ledger", verdict: Verdict::Warning, detail: warning, action });
    }
    for detail in place.unread_files() {
        findings.push(Finding { check: "ledger", verdict: Verdict::Warning, detail, action: None });
    }
    for repo in ledger.repos() {
        displaced(findings, &repo.file, fix);
    }
    for (number, repo) in ledger.repos().iter().enumerate() {
        match ledger.audit(number) {
            // It has no issue yet.
            Ok(_) if !repo.file.path().exists() => continue,
            Ok(audit) => audited(findings, repo.file.path(), &audit),
            Err(error) => findings.push(failed("ledger", &error)),
        }
        taken_back(findings, &ledger, number);
        if let Some(detail) = driver_problem(repo) {
            let action = "to merge issues field by field, set merge=waypost for it in .gitattributes".to_owned();
            findings.push(Finding { check: "ledger", verdict: Verdict::Warning, detail, action: Some(action) });
        }
    }
}

/// Checks for versions of the ledger that an interrupted write displaced.
fn displaced(findings: &mut Vec<Finding>, file: &LedgerFile, fix: bool) {
    for version in file.displaced() {
        let detail = format!("{}: version of another program, displaced by a write", version.display());
        let merged = fix.then(|| file.recover_displaced());
        let (verdict, action) = match merged {
            Some(Ok(())) => (Verdict::Fixed, "merged into the ledger".to_owned()),
            Some(Err(error)) => (Verdict::Warning, error.full_message()),
            None => (Verdict::Warning, "the next change merges it into the ledger, or way doctor --fix".to_owned()),
        };
        findings.push(Finding { check: "ledger", verdict, detail, action: Some(action) });
    }
}

/// Shows the changes that another program took back and that no commit has. If the ledger cannot be locked, nothing is known.
fn taken_back(findings: &mut Vec<Finding>, ledger: &Ledger, number: usize) {
    let issues = ledger.taken_back(number).unwrap_or_default();
    if issues.is_empty() {
        return;
    }
    let ids: Vec<&str> = issues.iter().map(|(id, _)| id.as_str()).collect();
    let changed = count(issues.len(), "issue");
    let action = "the next change writes them again, or way restore; way restore --drop discards them";
    findings.push(Finding {
        check: "ledger",
        verdict: Verdict::Warning,
        detail: format!("another program took back changes of {changed} that no commit has: {}", ids.join(", ")),
        action: Some(action.to_owned()),
    });
}

/// The hint for conflict markers.
const RESOLVE_HINT: &str = "way resolve merges the conflicting lines";
/// The hint for other unreadable lines.
const CORRECT_HINT: &str = "correct the line by hand; other lines are not affected";

fn audited(findings: &mut Vec<Finding>, path: &Path, audit: &Audit) {
    if audit.problems.is_empty() && audit.damage.is_empty() {
        findings.push(ok("ledger", format!("{} in {}", count(audit.issues, "issue"), path.display())));
    }
    let size = std::fs::metadata(path).map_or(0, |file| file.len());
    if size > LARGE_LEDGER_BYTES as u64 && audit.closed > 0 {
        findings.push(Finding {
            check: "ledger",
            verdict: Verdict::Warning,
            detail: format!("{} KB with {}: {}", size / 1024, count(audit.closed, "closed issue"), path.display()),
            action: Some("way prune removes closed issues; version control keeps them".to_owned()),
        });
    }
    for (line, damage) in &audit.damage {
        findings.push(Finding {
            check: "ledger",
            verdict: Verdict::Broken,
            detail: format!("{}:{line}: {damage}", path.display()),
            action: Some(if damage == CONFLICT_MARKER { RESOLVE_HINT } else { CORRECT_HINT }.to_owned()),
        });
    }
    for (line, problem) in &audit.problems {
        findings.push(Finding {
            check: "ledger",
            verdict: Verdict::Warning,
            detail: format!("{}:{line}: {problem}", path.display()),
            action: None,
        });
    }
}

/// Checks the links to the store in worktrees. Other links are left alone.
fn worktrees(findings: &mut Vec<Finding>, session: &mut Session, fix: bool) -> Result<()> {
    let all = survey_worktrees(session)?;
    let live: Vec<_> = all.iter().filter(|one| one.is_live()).collect();
    let mut is_fine = true;
    for one in &live {
        let link = one.path.join(DOT_DIR).join(STORE_FILE);
        let Ok(target) = std::fs::read_link(&link) else { continue };
        if target.exists() || target.file_name() != Some(STORE_FILE.as_ref()) {
            continue;
        }
        is_fine = false;
        let store = session.sqlite().filter(|_| fix);
        let fixed = store.is_some_and(|store| repair_link(&link, store.path()).is_ok());
        findings.push(Finding {
            check: "worktrees",
            verdict: if fixed { Verdict::Fixed } else { Verdict::Warning },
            detail: format!("{} points to {}, which does not exist", link.display(), target.display()),
            action: Some(if fixed { "now points to the store".to_owned() } else { "way doctor --fix".to_owned() }),
        });
    }
    for one in all.iter().filter(|one| one.state == WorktreeState::Gone) {
        let is_listed = session
            .place
            .checkout
            .as_ref()
            .is_some_and(|checkout| checkout.worktrees().iter().any(|listed| listed.path == one.path));
        if is_listed {
            is_fine = false;
            findings.push(Finding {
                check: "worktrees",
                verdict: Verdict::Warning,
                detail: format!("{} is gone, but version control still lists it", one.path.display()),
                action: Some(format!("if it was deleted: way worktree rm {}", one.name)),
            });
        }
    }
    if is_fine {
        let elsewhere = all.iter().filter(|one| one.state == WorktreeState::Elsewhere).count();
        let gone = all.len() - live.len() - elsewhere;
        let elsewhere = if elsewhere == 0 { String::new() } else { format!(", {elsewhere} on other machines") };
        findings.push(ok("worktrees", format!("{} on disk, {gone} gone{elsewhere}", live.len())));
    }
    Ok(())
}

fn repair_link(link: &Path, store: &Path) -> Result<()> {
    let cannot = |error| Error::unavailable(format!("cannot replace {}", link.display())).because(error);
    std::fs::remove_file(link).map_err(cannot)?;
    std::os::unix::fs::symlink(store, link).map_err(cannot)
}
