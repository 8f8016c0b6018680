//! Guesses, without network access, whether the user maintains a repository or contributes to it.

use std::fmt;

use serde::Serialize;

/// The user's role in a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Writes the ledger.
    Maintainer,
    /// Reads the ledger, and proposes issues.
    Contributor,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Maintainer => "maintainer",
            Role::Contributor => "contributor",
        })
    }
}

/// A remote of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its name.
    pub name: String,
    /// The URL to fetch from.
    pub url: String,
    /// The URL to push to, if it differs.
    pub push_url: Option<String>,
}

/// Guesses the role from the remotes of a repository. Returns it with the reason.
pub fn guess(remotes: &[Remote]) -> (Role, &'static str) {
    let named = |name: &str| remotes.iter().find(|remote| remote.name == name);
    let origin = named("origin");
    if let Some(upstream) = named("upstream")
        && origin.is_none_or(|origin| origin.url != upstream.url)
    {
        return (Role::Contributor, "the remotes upstream and origin differ: this is a fork");
    }
    let Some(origin) = origin.or(remotes.first()) else {
        return (Role::Maintainer, "there is no remote");
    };
    match access(origin.push_url.as_deref().unwrap_or(&origin.url)) {
        Access::Push => (Role::Maintainer, "its remote uses ssh, credentials or a path"),
        Access::Anonymous => (Role::Contributor, "its remote uses no credentials"),
    }
}

enum Access {
    Push,
    Anonymous,
}

fn access(url: &str) -> Access {
    let Some((scheme, rest)) = url.split_once("://") else {
        // A path, or user@host:path.
        return Access::Push;
    };
    let authority = rest.split('/').next().unwrap_or_default();
    match scheme {
        "http" | "https" if authority.contains('@') => Access::Push,
        "http" | "https" | "git" => Access::Anonymous,
        _ => Access::Push,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(name: &str, url: &str) -> Remote {
        Remote { name: name.to_owned(), url: url.to_owned(), push_url: None }
    }

    #[test]
    fn b6_the_role_follows_from_the_remotes() {
        for (url, role) in [
            ("git@example.org:team/project.git", Role::Maintainer),
            ("ssh://git@example.org/team/project", Role::Maintainer),
            ("/srv/git/project.git", Role::Maintainer),
            ("../project", Role::Maintainer),
            ("file:///srv/git/project.git", Role::Maintainer),
            ("https://token@example.org/team/project", Role::Maintainer),
            ("https://user:secret@example.org/team/project", Role::Maintainer),
            ("https://example.org/team/project", Role::Contributor),
            ("https://example.org/a@b/project", Role::Contributor),
            ("git://example.org/project", Role::Contributor),
        ] {
            assert_eq!(guess(&[remote("origin", url)]).0, role, "{url}");
        }
        assert_eq!(guess(&[]).0, Role::Maintainer);
        let fork = [remote("origin", "git@example.org:me/p"), remote("upstream", "https://example.org/team/p")];
        assert_eq!(guess(&fork).0, Role::Contributor);
        let same = [remote("origin", "git@example.org:me/p"), remote("upstream", "git@example.org:me/p")];
        assert_eq!(guess(&same).0, Role::Maintainer);
        let pushed = Remote {
            push_url: Some("git@example.org:team/p".to_owned()),
            ..remote("origin", "https://example.org/team/p")
        };
        assert_eq!(guess(&[pushed]).0, Role::Maintainer);
    }
}
