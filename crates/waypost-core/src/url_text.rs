//! URLs without secrets, for display and storage.

/// Removes passwords from a URL, and user names too where they are often tokens.
///
/// The user of an ssh or PostgreSQL URL stays: it is part of the address.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    if scheme.starts_with("postgres") {
        return format!("{scheme}://{}", postgres_without_password(rest));
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let Some((user, host)) = authority.rsplit_once('@') else {
        return url.to_owned();
    };
    match user.split(':').next() {
        Some(name) if scheme.contains("ssh") => format!("{scheme}://{name}@{host}{path}"),
        _ => format!("{scheme}://{host}{path}"),
    }
}

/// Returns the name of a repository, the same for all its URLs: `example.org/a/b`, or `b` for a path.
pub fn project(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.trim_end_matches('/');
    let rest = rest.strip_suffix(".git").unwrap_or(rest);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, path) = match (scheme, authority.split_once(':')) {
        // The scp form `git@host:path`.
        ("", Some((host, first))) => (host, format!("{first}{path}")),
        ("" | "file", _) => return rest.rsplit('/').next().unwrap_or(rest).to_owned(),
        (_, port) => (port.map_or(authority, |(host, _)| host), path.to_owned()),
    };
    let host = host.rsplit('@').next().unwrap_or(host).to_lowercase();
    format!("{host}/{}", path.trim_start_matches('/'))
}

/// PostgreSQL URLs are parsed loosely: a password may contain any character but `@`, and may be a parameter too.
fn postgres_without_password(rest: &str) -> String {
    let first_at = rest.find('@').unwrap_or(0);
    let query = rest[first_at..].find('?').map_or(rest.len(), |at| first_at + at);
    let (address, query) = rest.split_at(query);
    let mut shown = match address.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split(':').next().unwrap_or_default()),
        None => address.to_owned(),
    };
    let is_public = |parameter: &&str| !parameter.split('=').next().is_some_and(|key| key.contains("password"));
    let parameters: Vec<_> = query.strip_prefix('?').unwrap_or(query).split('&').filter(is_public).collect();
    if parameters.iter().any(|parameter| !parameter.is_empty()) {
        shown.push('?');
        shown.push_str(&parameters.join("&"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_urls_of_a_repository_give_one_name() {
        for url in [
            "https://example.org/team/project.git",
            "https://Example.org/team/project/",
            "ssh://git@example.org:2222/team/project.git",
            "git@example.org:team/project.git",
            "example.org:team/project",
        ] {
            assert_eq!(project(url), "example.org/team/project", "{url}");
        }
        for path in ["/srv/project.git", "../project", "file:///srv/project/", "project", "./a/project", "a/project"] {
            assert_eq!(project(path), "project", "{path}");
        }
        assert_eq!(project("https://example.org/1/2"), "example.org/1/2");
    }

    #[test]
    fn p29_passwords_are_removed_from_urls() {
        let check = |url: &str, expected: &str| assert_eq!(without_password(url), expected);
        check("https://user:secret@example.org/a/b", "https://example.org/a/b");
        check("https://token@example.org/a", "https://example.org/a");
        check("https://example.org/a@b", "https://example.org/a@b");
        check("ssh://git:secret@example.org:22/a", "ssh://git@example.org:22/a");
        check("git@example.org:a/b", "git@example.org:a/b");
        check("postgres://me:secret@host/db?sslmode=verify-full", "postgres://me@host/db?sslmode=verify-full");
        check("postgres://me:se/cr?e#t@host/db", "postgres://me@host/db");
        check("postgres://me:s@cret@host:5432/db", "postgres://me@host:5432/db");
        check("postgres:///db?host=/tmp&password=secret&user=me", "postgres:///db?host=/tmp&user=me");
        check("postgresql://host/db?password=secret", "postgresql://host/db");
        // The shown form is the shown form of itself.
        check("postgres://host?password=x&?", "postgres://host??");
        check("postgres://host??", "postgres://host??");
        check("/srv/repository", "/srv/repository");
    }
}
