//! URLs as they may be shown and stored: without secrets.

/// Takes passwords off a URL, and user names too where they are often tokens.
///
/// The user of an ssh or PostgreSQL URL stays: it is part of the address.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let Some((user, host)) = authority.rsplit_once('@') else {
        return url.to_owned();
    };
    match user.split(':').next() {
        Some(name) if scheme.contains("ssh") || scheme.starts_with("postgres") => {
            format!("{scheme}://{name}@{host}{path}")
        }
        _ => format!("{scheme}://{host}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p29_passwords_are_taken_off_urls() {
        let check = |url: &str, expected: &str| assert_eq!(without_password(url), expected);
        check("https://user:secret@example.org/a/b", "https://example.org/a/b");
        check("https://token@example.org/a", "https://example.org/a");
        check("https://example.org/a@b", "https://example.org/a@b");
        check("ssh://git:secret@example.org:22/a", "ssh://git@example.org:22/a");
        check("git@example.org:a/b", "git@example.org:a/b");
        check("postgres://me:secret@host/db?sslmode=verify-full", "postgres://me@host/db?sslmode=verify-full");
        check("/srv/repository", "/srv/repository");
    }
}
