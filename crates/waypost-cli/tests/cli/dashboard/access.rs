//! Logins, roles, deep links and the history of the browser.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use waypost_testkit::{Browser, UNPRIVILEGED_UID};

use super::{create_work, open};
use crate::serving::Server;

/// The screens that readers may visit, each with a text on it.
const SCREENS: [(&str, &str); 6] = [
    ("#/now", "Now"),
    ("#/workflows/release", "release"),
    ("#/issues", "Issues"),
    ("#/agents", "ann"),
    ("#/workspaces", "Workspaces"),
    ("#/jobs", "Jobs"),
];

#[test]
fn a_deep_link_survives_the_login_and_logging_out_ends_the_session() {
    let server = Server::start(&[]);
    create_work(&server);
    let browser = Browser::start(&server.sandbox.path(""));
    browser.go(&format!("{}/#/workflows/release", server.url()));
    browser.wait_for("Log in");
    let _ = browser.run("document.getElementById('token').focus()");
    browser.press(&server.token);
    browser.press("\u{e007}");
    browser.wait_for("waits for build");
    assert_eq!(browser.run("return location.hash"), "#/workflows/release");
    browser.show("#/agents");
    browser.wait_for("ann");
    let _ = browser.run("history.back()");
    browser.wait_for("waits for build");
    browser.click("Log out");
    browser.wait_for("Log in");
    assert!(!browser.text().contains("release"), "{}", browser.text());
    browser.go(server.url());
    browser.wait_for("Log in");
    assert!(browser.run("return sessionStorage.getItem('waypost-session')").is_null());
}

#[test]
fn the_session_of_a_login_link_ends_with_logging_out() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    let browser = open(&server);
    browser.wait_for("Needs you");
    browser.click("Log out");
    browser.wait_for("Log in");
    browser.go(server.url());
    browser.wait_for("Log in");
    assert!(!browser.text().contains("Needs you"), "{}", browser.text());
}

/// A web server of another user, which records what browsers send to it, and answers every request with a page.
struct Recorder {
    child: Child,
    host: String,
    received: mpsc::Receiver<String>,
}

impl Recorder {
    fn start(address: &str, page: &str) -> Recorder {
        const SERVER: &str = r#"
            use IO::Socket::INET; $| = 1; my ($address, $page) = @ARGV;
            my $server = IO::Socket::INET->new(LocalAddr => $address, Listen => 9) or die "$address: $@";
            print "$> ", $server->sockhost, ":", $server->sockport, "\n";
            while (my $client = $server->accept) {
                while (<$client>) { print; last if $_ eq "\r\n" }
                print $client "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ", length $page,
                    "\r\nConnection: close\r\n\r\n$page";
            }
        "#;
        let mut command = Command::new("perl");
        command.args(["-e", SERVER, address, page]).current_dir("/").env_clear().stdout(Stdio::piped());
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said = lines.next().expect("the server starts");
        let (user, host) = said.split_once(' ').unwrap();
        assert_ne!(is_root, user == "0", "another user runs it");
        let (sender, received) = mpsc::channel();
        std::thread::spawn(move || lines.try_for_each(|line| sender.send(line + "\n")));
        Recorder { child, host: host.to_owned(), received }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Browsers send cookies to every port of a host: the page has none, and nothing of its session leaves its own port.
#[test]
fn nothing_of_a_session_arrives_at_another_port_or_address() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    let browser = open(&server);
    browser.wait_for("Needs you");
    let secret = browser.run("return sessionStorage.getItem('waypost-session')").as_str().unwrap().to_owned();
    assert!(secret.starts_with("ways_"), "{secret}");
    assert_eq!(browser.run("return document.cookie"), "");
    assert_eq!(browser.run("return location.hash"), "#/now", "the code is not in the address");
    let code = server.said["login"].as_str().unwrap().split('=').nth(1).unwrap().to_owned();
    let port = server.host().split(':').nth(1).unwrap();
    // It shows the dashboard in a frame, asks for it, and listens on the channel of its tabs.
    let page = format!(
        "<p>elsewhere</p><iframe src='{0}/'></iframe><script>window.heard = [];\
         const tabs = new BroadcastChannel('waypost-session'); tabs.onmessage = (one) => heard.push(one.data);\
         tabs.postMessage({{ asks: true }});\
         fetch('{0}/api/v1/status', {{ credentials: 'include' }}).then((one) => heard.push(one.status), () => {{}})\
         .finally(() => {{ window.asked = true; }});</script>",
        server.url()
    );
    for address in ["127.0.0.1:0".to_owned(), format!("127.0.0.2:{port}")] {
        let other = Recorder::start(&address, &page);
        let host = &other.host;
        browser.open_tab();
        browser.go(&format!("http://{host}/"));
        browser.wait_for("elsewhere");
        browser.wait_for_script("the page has asked", "window.asked");
        assert_eq!(browser.run("return window.heard"), serde_json::json!([]), "{host}");
        assert_eq!(browser.run("return document.cookie + (sessionStorage.getItem('waypost-session') ?? '')"), "");
        let frame = "return document.querySelector('iframe').contentDocument?.body.innerText ?? 'refused'";
        assert_eq!(browser.run(frame), "refused", "{host}");
        let arrived: String = other.received.try_iter().collect();
        assert!(arrived.starts_with("GET / "), "{arrived}");
        for word in [&secret, &code, "cookie:", "authorization:", server.host()] {
            assert!(!arrived.to_ascii_lowercase().contains(word), "{word}: {arrived}");
        }
    }
}

#[test]
fn other_tabs_and_a_reload_keep_the_session_until_one_of_them_logs_out() {
    let server = Server::start(&["--open"]);
    create_work(&server);
    let browser = open(&server);
    browser.wait_for("Needs you");
    let _ = browser.run("window.isOld = true; location.reload()");
    browser
        .wait_for_script("the page is loaded again", "!window.isOld && document.body.innerText.includes('Needs you')");
    let second = browser.open_tab();
    browser.go(&format!("{}/#/agents", server.url()));
    browser.wait_for("ann");
    assert_eq!(browser.run("return location.hash"), "#/agents");
    // The link was used: a third tab says so only if no other one is logged in.
    let _ = browser.open_tab();
    browser.go(server.said["login"].as_str().unwrap());
    browser.wait_for("Needs you");
    browser.click("Log out");
    browser.wait_for("Log in");
    browser.use_tab(&second);
    browser.wait_for("Log in");
    browser.go(server.said["login"].as_str().unwrap());
    browser.wait_for("This login link was used already, or is too old.");
}

#[test]
fn readers_see_every_screen_and_no_button_that_changes_something() {
    let server = Server::start(&[]);
    create_work(&server);
    let _ = server.way(&["task", "claim", "name", "--agent", "bob"]).ok();
    let _ = server.way(&["task", "ask", "name", "--agent", "bob", "--question", "Which name?"]).ok();
    let task = server.way(&["task", "show", "name", "--json"]).data()["id"].as_str().unwrap().to_owned();
    let issue = server.way(&["list", "--json"]).data()[0]["id"].as_str().unwrap().to_owned();
    let browser = Browser::start(&server.sandbox.path(""));
    let token = server.token(&["--role", "read-only"]);
    browser.go(server.url());
    browser.wait_for("Log in");
    let _ = browser.run("document.getElementById('token').focus()");
    browser.press(&token);
    browser.press("\u{e007}");
    browser.wait_for("Which name?");
    let known =
        "performance.getEntriesByType('resource').some((one) => one.name.endsWith('/whoami') && one.responseEnd > 0)";
    browser.wait_for_script("the page knows the role", known);
    let more = [(format!("#/task/{task}"), "Which name?"), (format!("#/issues/{issue}"), "Ready")];
    let screens = SCREENS.iter().map(|(address, text)| ((*address).to_owned(), *text)).chain(more);
    for (address, text) in screens {
        browser.show(&address);
        browser.wait_for(text);
        let actions = "return document.querySelectorAll('main [data-action], main form.inline, main textarea').length";
        assert_eq!(browser.run(actions), 0, "{address}");
    }
    let refused = browser.errors();
    // Before the login, the server refused to answer without a token.
    assert!(refused.iter().all(|line| line.contains("status of 401")), "{refused:?}");
}
