//! The part of a repository's configuration that git gets from us.
//!
//! The author of a repository, or a job in a workspace, may have written its configuration, and many settings run programs,
//! send data or read files elsewhere. Each version of git adds some. So git never reads that file: this module reads its
//! bytes, keeps the settings on a list of harmless ones, and writes them again. Files that it includes are never read.

use std::collections::BTreeSet;
use std::fmt;

use waypost_core::{Error, Result};

use super::driver_line::{DRIVER_NAME, own_driver};

/// Harmless settings, without the name in the middle: `remote.url` is also `remote.origin.url`. None of them names a
/// program or a file.
const HARMLESS: &str = "
    author.email author.name branch.autosetupmerge branch.autosetuprebase branch.merge branch.pushremote branch.rebase
    branch.remote checkout.defaultremote checkout.thresholdforparallelism checkout.workers committer.email committer.name
    core.abbrev core.autocrlf core.bare core.bigfilethreshold core.checkroundtripencoding core.checkstat core.commitgraph
    core.compression core.createobject core.deltabasecachelimit core.disambiguate core.eol core.filemode
    core.filesreflocktimeout core.fscache core.hidedotfiles core.ignorecase core.ignorestat core.logallrefupdates
    core.longpaths core.loosecompression core.maxtreedepth core.multipackindex core.packedgitlimit core.packedgitwindowsize
    core.packedrefstimeout core.precomposeunicode core.preloadindex core.protecthfs core.protectntfs core.quotepath
    core.repositoryformatversion core.restrictinheritedhandles core.safecrlf core.sharedrepository core.sparsecheckout
    core.sparsecheckoutcone core.splitindex core.symlinks core.trustctime core.untrackedcache core.usereplacerefs
    core.warnambiguousrefs core.whitespace credential.usehttppath credential.username diff.algorithm diff.autorefreshindex
    diff.binary diff.colormoved diff.colormovedws diff.context diff.dirstat diff.funcname diff.ignoresubmodules
    diff.indentheuristic diff.interhunkcontext diff.mnemonicprefix diff.noprefix diff.relative diff.renamelimit
    diff.renames diff.statgraphwidth diff.submodule diff.suppressblankempty diff.wordregex diff.wserrorhighlight
    diff.xfuncname extensions.compatobjectformat extensions.noop extensions.noop-v1 extensions.objectformat
    extensions.partialclone extensions.preciousobjects extensions.refstorage extensions.relativeworktrees
    feature.experimental feature.manyfiles fetch.fsckobjects fetch.negotiationalgorithm fetch.output fetch.parallel
    fetch.prune fetch.prunetags fetch.recursesubmodules fetch.showforcedupdates fetch.unpacklimit fetch.writecommitgraph
    gc.pruneexpire gc.reflogexpire gc.reflogexpireunreachable gc.worktreepruneexpire http.extraheader http.followredirects
    http.lowspeedlimit http.lowspeedtime http.maxrequests http.minsessions http.postbuffer http.version i18n.commitencoding
    index.skiphash index.sparse index.threads index.version lfs.access lfs.allowincompletepush lfs.basictransfersonly
    lfs.batch lfs.concurrenttransfers lfs.fetchexclude lfs.fetchinclude lfs.fetchrecentalways lfs.fetchrecentcommitsdays
    lfs.fetchrecentrefsdays lfs.fetchrecentremoterefs lfs.lockignoredfiles lfs.locksverify lfs.pruneoffsetdays
    lfs.pruneremotetocheck lfs.pushurl lfs.repositoryformatversion lfs.setlockablereadonly lfs.skipdownloaderrors
    lfs.maxretries lfs.maxretrydelay lfs.url merge.conflictstyle merge.defaulttoupstream
    merge.directoryrenames merge.ff merge.name merge.recursive merge.renamelimit merge.renames merge.renormalize merge.stat
    merge.verbosity pack.compression pack.depth pack.packsizelimit pack.threads pack.window pack.windowmemory
    protocol.version push.default remote.fetch remote.followremotehead remote.mirror remote.partialclonefilter
    remote.promisor remote.prune remote.prunetags remote.push remote.pushdefault remote.pushurl remote.skipdefaultupdate
    remote.skipfetchall remote.tagopt remote.url submodule.active submodule.alternateerrorstrategy
    submodule.alternatelocation submodule.branch submodule.fetchjobs submodule.fetchrecursesubmodules submodule.ignore
    submodule.url transfer.fsckobjects transfer.hiderefs transfer.unpacklimit uploadpack.allowanysha1inwant
    uploadpack.allowfilter uploadpack.allowreachablesha1inwant uploadpack.allowrefinwant uploadpack.allowtipsha1inwant
    uploadpack.hiderefs uploadpack.keepalive url.insteadof url.pushinsteadof user.email user.name user.useconfigonly
";

/// The filters that git-lfs itself configures. Repositories that use git-lfs need them, and they are known to be harmless.
const LFS_FILTERS: &[(&str, &[&str])] = &[
    ("clean", &["git-lfs clean -- %f"]),
    ("smudge", &["git-lfs smudge -- %f", "git-lfs smudge --skip -- %f"]),
    ("process", &["git-lfs filter-process", "git-lfs filter-process --skip"]),
    ("required", &["true", "false"]),
];

/// The settings of a worktree of its own that decide which files it has.
const SPARSE: [&str; 3] = ["core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse"];

/// One setting. Names and values are bytes: git does not decode them either.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The section, in lower case.
    section: String,
    /// The name in the middle, exactly as it is written.
    middle: Option<Vec<u8>>,
    /// The last part, in lower case.
    name: String,
    /// None if there is no `=`, which means true.
    value: Option<Vec<u8>>,
}

/// Shows no value: a URL may contain a password.
impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let middle = self.middle.as_ref().map(|middle| format!("{}.", middle.escape_ascii()));
        write!(f, "{}.{}{}", self.section, middle.unwrap_or_default(), self.name)
    }
}

impl Setting {
    /// A setting that we choose.
    pub(super) fn new(section: &str, middle: Option<&[u8]>, name: &str, value: &[u8]) -> Setting {
        let (section, name) = (section.to_ascii_lowercase(), name.to_ascii_lowercase());
        Setting { section, middle: middle.map(<[u8]>::to_vec), name, value: Some(value.to_vec()) }
    }

    /// The key without the name in the middle.
    fn kind(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    fn is_true(&self) -> bool {
        self.value.as_deref().is_none_or(|value| {
            let value = value.to_ascii_lowercase();
            matches!(value.as_slice(), b"true" | b"yes" | b"on")
                || std::str::from_utf8(&value).ok().and_then(|text| text.parse::<i64>().ok()).is_some_and(|n| n != 0)
        })
    }

    /// Returns the setting as git may have it.
    fn harmless(&self) -> Option<Setting> {
        let (kind, value) = (self.kind(), self.value.as_deref());
        match (kind.as_str(), self.middle.as_deref()) {
            // Git would run this word with a shell, so it is never theirs.
            ("merge.driver", Some(middle)) if middle == DRIVER_NAME.as_bytes() => {
                let driver = own_driver()?;
                Some(Setting { value: Some(driver.into_bytes()), ..self.clone() })
            }
            (_, Some(b"lfs")) if self.section == "filter" => {
                let known = LFS_FILTERS.iter().find(|(name, _)| *name == self.name)?;
                known.1.iter().any(|known| Some(known.as_bytes()) == value).then(|| self.clone())
            }
            (kind, middle) => {
                let is_known = HARMLESS.split_whitespace().any(|known| known == kind);
                // Git-lfs has settings for programs that end like a harmless one.
                let is_odd = self.section == "lfs"
                    && middle.is_some_and(|middle| middle.starts_with(b"extension") || middle.starts_with(b"custom"));
                (is_known && !is_odd).then(|| self.clone())
            }
        }
    }
}

/// The settings of a repository's configuration, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GitConfig(Vec<Setting>);

impl GitConfig {
    /// Reads a configuration as git reads it, without the files that it includes.
    ///
    /// # Errors
    ///
    /// Returns an error with the number of a line that git could not read either.
    pub(super) fn parse(bytes: &[u8]) -> Result<GitConfig> {
        let mut reader = Reader::new(bytes);
        reader.settings().map_err(|()| {
            let line = reader.bytes[..reader.at.min(reader.bytes.len())].split(|byte| *byte == b'\n').count();
            Error::refused(format!("git's configuration has a line that cannot be read, about line {line}"))
        })
    }

    /// Adds settings, which override these.
    pub(super) fn extend(&mut self, settings: impl IntoIterator<Item = Setting>) {
        self.0.extend(settings);
    }

    /// Adds the settings of another file, which override these.
    pub(super) fn append(&mut self, other: GitConfig) {
        self.0.extend(other.0);
    }

    /// Returns whether each worktree has a configuration of its own beside this one.
    pub(super) fn has_worktree_config(&self) -> bool {
        self.0.iter().rev().find(|one| one.kind() == "extensions.worktreeconfig").is_some_and(Setting::is_true)
    }

    /// Returns the part that git may have.
    ///
    /// # Errors
    ///
    /// Returns an error if the repository needs an extension that is not known: git must not read it without.
    pub(super) fn harmless(&self) -> Result<GitConfig> {
        let version = self.0.iter().rev().find(|one| one.kind() == "core.repositoryformatversion");
        let is_extended = version.and_then(|one| one.value.as_deref()).is_some_and(|value| value != b"0");
        let is_unknown =
            |one: &&Setting| one.section == "extensions" && one.harmless().is_none() && one.name != "worktreeconfig";
        match self.0.iter().find(is_unknown).filter(|_| is_extended) {
            Some(unknown) => Err(Error::refused(format!("the git repository has an unknown extension, {unknown:?}"))),
            None => Ok(GitConfig(self.0.iter().filter_map(Setting::harmless).collect())),
        }
    }

    /// Returns the settings without the name and the address of the user.
    pub(super) fn without_user(self) -> GitConfig {
        let is_user = |one: &Setting| ["user", "author", "committer"].iter().any(|section| one.section == *section);
        GitConfig(self.0.into_iter().filter(|one| !is_user(one)).collect())
    }

    /// Returns the part that decides which files a worktree has.
    pub(super) fn sparse(&self) -> GitConfig {
        GitConfig(self.0.iter().filter(|one| SPARSE.contains(&one.kind().as_str())).cloned().collect())
    }

    /// Returns whether there is no setting.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the filters that this configures, and that [`GitConfig::harmless`] leaves out.
    pub(super) fn filters_off(&self) -> BTreeSet<Vec<u8>> {
        let off = self.0.iter().filter(|one| one.section == "filter" && one.harmless().is_none());
        off.filter_map(|one| one.middle.clone()).collect()
    }

    /// Writes the settings so that git reads them again.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for Setting { section, middle, name, value } in &self.0 {
            text.extend_from_slice(format!("[{section}").as_bytes());
            if let Some(middle) = middle {
                text.extend_from_slice(b" \"");
                text.extend(middle.iter().flat_map(|byte| escaped(*byte, false)));
                text.push(b'"');
            }
            text.extend_from_slice(format!("]\n\t{name}").as_bytes());
            if let Some(value) = value {
                text.extend_from_slice(b" = \"");
                text.extend(value.iter().flat_map(|byte| escaped(*byte, true)));
                text.push(b'"');
            }
            text.push(b'\n');
        }
        text
    }
}

/// Returns the keys of a configuration that would reach git, and the bytes that git would read. For the fuzz target.
#[cfg(fuzzing)]
pub fn git_config_for_git(bytes: &[u8]) -> Option<(Vec<(String, Option<Vec<u8>>)>, Vec<u8>)> {
    let config = GitConfig::parse(bytes).and_then(|config| config.harmless()).ok()?;
    Some((config.0.iter().map(|one| (one.kind(), one.middle.clone())).collect(), config.to_bytes()))
}

/// Escapes a byte between quotes. Only in values, letters stand for control characters.
fn escaped(byte: u8, is_value: bool) -> Vec<u8> {
    match byte {
        b'"' | b'\\' => vec![b'\\', byte],
        b'\n' if is_value => b"\\n".to_vec(),
        b'\t' if is_value => b"\\t".to_vec(),
        8 if is_value => b"\\b".to_vec(),
        _ => vec![byte],
    }
}

/// Reads a configuration byte by byte, by the same rules as git.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

type Parsed<T> = std::result::Result<T, ()>;

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes: bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes), at: 0 }
    }

    /// Returns the next byte; a newline at the end, as git does.
    fn next(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        if byte == Some(b'\r') && self.bytes.get(self.at) == Some(&b'\n') {
            self.at += 1;
            return b'\n';
        }
        byte.unwrap_or(b'\n')
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn settings(&mut self) -> Parsed<GitConfig> {
        // Git's own strings end there, so it would read another text than we do.
        if let Some(zero) = self.bytes.iter().position(|byte| *byte == 0) {
            self.at = zero;
            return Err(());
        }
        let mut settings = Vec::new();
        let mut header: Option<(String, Option<Vec<u8>>)> = None;
        while !self.is_at_end() {
            match self.next() {
                byte if is_space(byte) => {}
                b'#' | b';' => while self.next() != b'\n' {},
                b'[' => header = Some(self.header()?),
                byte if byte.is_ascii_alphabetic() => {
                    let (name, value) = self.assignment(byte)?;
                    // Before the first section, a setting has no meaning.
                    if let Some((section, middle)) = header.clone() {
                        settings.push(Setting { section, middle, name, value });
                    }
                }
                _ => return Err(()),
            }
        }
        Ok(GitConfig(settings))
    }

    /// Reads `remote "origin"]`, or the old form `remote.origin]`, after the opening bracket.
    fn header(&mut self) -> Parsed<(String, Option<Vec<u8>>)> {
        let mut name = String::new();
        loop {
            if self.is_at_end() {
                return Err(());
            }
            match self.next() {
                b']' => {
                    let split = name.split_once('.').map(|(one, two)| (one.to_owned(), Some(two.as_bytes().to_vec())));
                    let header = split.unwrap_or((name, None));
                    return if header.0.is_empty() { Err(()) } else { Ok(header) };
                }
                byte if is_space(byte) => {
                    let middle = self.middle(byte)?;
                    let (section, rest) = name.split_once('.').unwrap_or((&name, ""));
                    let prefix = if rest.is_empty() { String::new() } else { format!("{rest}.") };
                    let middle = [prefix.as_bytes(), &middle].concat();
                    return if section.is_empty() { Err(()) } else { Ok((section.to_owned(), Some(middle))) };
                }
                byte if is_key(byte) || byte == b'.' => name.push(char::from(byte.to_ascii_lowercase())),
                _ => return Err(()),
            }
        }
    }

    /// Reads ` "origin"]` after the first space.
    fn middle(&mut self, mut byte: u8) -> Parsed<Vec<u8>> {
        while is_space(byte) {
            if byte == b'\n' {
                return Err(());
            }
            byte = self.next();
        }
        if byte != b'"' {
            return Err(());
        }
        let mut middle = Vec::new();
        loop {
            match self.next() {
                b'\n' => return Err(()),
                b'"' => break,
                b'\\' => match self.next() {
                    b'\n' => return Err(()),
                    byte => middle.push(byte),
                },
                byte => middle.push(byte),
            }
        }
        if self.next() == b']' { Ok(middle) } else { Err(()) }
    }

    /// Reads a name, from its first byte on, and its value.
    fn assignment(&mut self, first: u8) -> Parsed<(String, Option<Vec<u8>>)> {
        let mut name = String::from(char::from(first.to_ascii_lowercase()));
        let mut byte = loop {
            match self.next() {
                byte if is_key(byte) => name.push(char::from(byte.to_ascii_lowercase())),
                byte => break byte,
            }
        };
        while byte == b' ' || byte == b'\t' {
            byte = self.next();
        }
        match byte {
            b'\n' => Ok((name, None)),
            b'=' => Ok((name, Some(self.value()?))),
            _ => Err(()),
        }
    }

    fn value(&mut self) -> Parsed<Vec<u8>> {
        let (mut value, mut is_quoted, mut is_comment) = (Vec::new(), false, false);
        // Spaces at the end are not part of the value, unless they are quoted.
        let mut kept = 0;
        loop {
            match self.next() {
                b'\n' if is_quoted => return Err(()),
                b'\n' => {
                    value.truncate(kept);
                    return Ok(value);
                }
                _ if is_comment => {}
                byte if is_space(byte) && !is_quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                b'#' | b';' if !is_quoted => is_comment = true,
                b'\\' => match self.next() {
                    b'\n' => continue,
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return Err(()),
                },
                b'"' => is_quoted = !is_quoted,
                byte => value.push(byte),
            }
            if !is_comment {
                kept = value.len();
            }
        }
    }
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// The bytes that C takes for spaces here.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// Returns what git would get of a configuration.
    fn kept(text: &[u8]) -> Vec<String> {
        let config = GitConfig::parse(text).unwrap().harmless().unwrap();
        config.0.iter().map(|one| format!("{one:?}={}", one.value.as_deref().unwrap_or(b"-").escape_ascii())).collect()
    }

    /// Returns what git itself reads, as lines of `git config --list -z`. None if git refuses the file.
    fn read_by_git(text: &[u8]) -> Option<Vec<u8>> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        waypost_fs::replace(&file, text, 0o600).unwrap();
        let mut git = Command::new("git");
        let output = git.args(["config", "--no-includes", "--list", "-z", "--file"]).arg(file).output().unwrap();
        output.status.success().then_some(output.stdout)
    }

    fn as_git_prints(config: &GitConfig) -> Vec<u8> {
        let mut printed = Vec::new();
        for Setting { section, middle, name, value } in &config.0 {
            printed.extend_from_slice(section.as_bytes());
            printed.extend(middle.iter().flat_map(|middle| [b".", middle.as_slice()].concat()));
            printed.extend_from_slice(format!(".{name}").as_bytes());
            printed.extend(value.iter().flat_map(|value| [b"\n", value.as_slice()].concat()));
            printed.push(0);
        }
        printed
    }

    const TEXTS: &[&[u8]] = &[
        b"",
        b"[core]\n\tbare = true\n",
        b"\xef\xbb\xbf[core] bare = yes ; on one line",
        b"[CORE]\nBare\n[Remote \"Up\"]\nURL = a",
        b"[remote \"o]\\\"x\\y\"]\nurl = a\r\n",
        b"[remote.Origin]\nurl = a # not\n[a.b \"c\"]\nd = e",
        b"[a]\nb = \" kept \"  # not kept\nc = one \\\n  two\\\nd = 1\ne = x\\ty\\\\z\\b\\n\"\n",
        b"[a]\nb = x\\ty\\\\z\\b\\n\nc = a \"\" \nd = \"#\";#\ne=\nf = \\",
        b"[filter \"\xffx\"]\n\tclean = \xfe\n",
        b"[a]\nb = \"open\n",
        b"[a]\nb = \\q",
        b"[a \"b\" ]\nc = d",
        b"[a\nb = c",
        b"[a]b=1\nc-d=2\n1=2",
        b"[a] # x\n ;y\n\tb",
        b"[a]\nb = c\rd\n",
        b"[a \"x\ny\"]\nb = c",
    ];

    #[test]
    fn a_configuration_is_read_as_git_reads_it() {
        for text in TEXTS {
            let ours = GitConfig::parse(text).ok().map(|config| as_git_prints(&config));
            let shown = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| bytes.escape_ascii().to_string());
            assert_eq!(shown(&ours), shown(&read_by_git(text)), "{}", text.escape_ascii());
        }
        assert!(GitConfig::parse(b"[a]\nb = c\0d\n").is_err());
        assert!(GitConfig::parse(b"b = 1").unwrap().is_empty());
    }

    #[test]
    fn git_reads_what_is_written() {
        for text in TEXTS {
            let Ok(config) = GitConfig::parse(text) else { continue };
            assert_eq!(GitConfig::parse(&config.to_bytes()).unwrap(), config);
            assert_eq!(read_by_git(&config.to_bytes()), Some(as_git_prints(&config)), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn a_setting_that_is_not_known_to_be_harmless_never_reaches_git() {
        for key in [
            "[core]\nfsmonitor",
            "[core]\nhooksPath",
            "[core]\nsshCommand",
            "[core]\naskPass",
            "[core]\ngitProxy",
            "[core]\neditor",
            "[core]\npager",
            "[core]\nworktree",
            "[core]\nattributesFile",
            "[core]\nexcludesFile",
            "[core]\nalternateRefsCommand",
            "[include]\npath",
            "[includeIf \"gitdir:/\"]\npath",
            "[filter \"x\"]\nclean",
            "[filter \"\"]\nsmudge",
            "[filter.x]\nprocess",
            "[filter \"lfs\"]\nclean",
            "[filter \"lfs\"]\nrequired",
            "[diff]\nexternal",
            "[diff \"x\"]\ncommand",
            "[diff \"x\"]\ntextconv",
            "[merge \"x\"]\ndriver",
            "[gpg]\nprogram",
            "[gpg \"ssh\"]\ndefaultKeyCommand",
            "[credential]\nhelper",
            "[credential \"https://x.test\"]\nhelper",
            "[http]\nproxy",
            "[http]\nsslVerify",
            "[http]\ncookieFile",
            "[http \"https://x.test/\"]\nsslCAInfo",
            "[remote \"origin\"]\nuploadpack",
            "[remote \"origin\"]\nreceivepack",
            "[remote \"origin\"]\nproxy",
            "[remote \"origin\"]\nvcs",
            "[uploadpack]\npackObjectsHook",
            "[gc]\nrecentObjectsHook",
            "[lfs \"extension.x\"]\nurl",
            "[lfs \"customtransfer.x\"]\npath",
            "[lfs]\nstandaloneTransferAgent",
            "[lfs]\nstorage",
            "[submodule \"x\"]\nupdate",
            "[trailer \"x\"]\ncommand",
            "[branch \"x\"]\nmergeOptions",
            "[protocol \"ext\"]\nallow",
            "[protocol]\nallow",
            "[alias]\nstatus",
            "[pager]\nstatus",
            "[extensions]\nworktreeConfig",
            "[commit]\ntemplate",
            "[blame]\nignoreRevsFile",
            "[fetch]\nbundleURI",
            "[mailmap]\nfile",
            "[trace2]\neventTarget",
            "[safe]\ndirectory",
            "[added \"by\"]\nanewgit",
        ] {
            assert_eq!(kept(format!("{key} = evil\n").as_bytes()), [""; 0], "{key}");
        }
    }

    #[test]
    fn what_a_repository_needs_stays() {
        let text =
            b"[core]\n\trepositoryformatversion = 1\n\tautocrlf = input\n[extensions]\n\tobjectFormat = sha256\n\
            [remote \"My.Fork\"]\n\turl = https://x.test/r.git\n\tfetch = +refs/heads/*:refs/remotes/f/*\n\
            [branch \"\xc3\xa4\"]\n\tmerge = refs/heads/main\n[user]\n\temail = a@x.test\n\
            [url \"https://x.test/\"]\n\tinsteadOf = x:\n[filter \"lfs\"]\n\tprocess = git-lfs filter-process\n\
            [http \"https://x.test/\"]\n\textraHeader = Authorization: basic x\n[submodule \"a\"]\n\turl = ../a\n";
        let all = GitConfig::parse(text).unwrap();
        assert_eq!(all.harmless().unwrap(), all);
        assert_eq!(all.filters_off(), BTreeSet::new());
    }

    #[test]
    fn a_filter_that_is_left_out_is_named_by_its_bytes() {
        let config = GitConfig::parse(b"[filter \"\xffx\"]\n\tclean = x\n[filter \"lfs\"]\n\tclean = evil\n").unwrap();
        assert_eq!(config.filters_off(), BTreeSet::from([b"\xffx".to_vec(), b"lfs".to_vec()]));
    }

    #[test]
    fn the_driver_of_a_ledger_is_this_program_whatever_the_repository_names() {
        let kept = kept(b"[merge \"waypost\"]\n\tdriver = $(evil) merge-driver %O %A %B %P\n");
        assert_eq!(kept.len(), 1);
        assert!(!kept[0].contains("evil") && kept[0].ends_with(" merge-driver %O %A %B %P"), "{kept:?}");
    }

    #[test]
    fn an_unknown_extension_is_refused_if_git_would_obey_it() {
        let parse = |text: &[u8]| GitConfig::parse(text).unwrap().harmless();
        parse(b"[core]\nrepositoryformatversion = 1\n[extensions]\nfuture = true\n").unwrap_err();
        parse(b"[core]\nrepositoryformatversion = 0\n[extensions]\nfuture = true\n").unwrap();
        parse(b"[core]\nrepositoryformatversion = 1\n[extensions]\nworktreeConfig = true\n").unwrap();
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(text in "[\\[\\]\"\\\\=#;a.\r\n\t é]{0,60}") {
            if let Ok(config) = GitConfig::parse(text.as_bytes()) {
                prop_assert_eq!(GitConfig::parse(&config.to_bytes()).unwrap(), config);
            }
        }
    }
}
