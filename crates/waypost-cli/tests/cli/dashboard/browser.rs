//! A real browser: Chromium, driven over WebDriver.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use waypost_testkit::Sandbox;

use crate::support::jobs::until;

/// Chromium with one window. It ends with the value.
pub(super) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts it, with its files in the sandbox.
    pub(super) fn start(sandbox: &Sandbox) -> Browser {
        let (chromium, driver) = waypost_testkit::chromium();
        let mut driver =
            Command::new(driver).arg("--port=0").env("HOME", sandbox.path("")).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let port = line.split_once("started successfully on port ")?.1;
            port.trim_end_matches('.').parse().ok()
        });
        let mut browser = Browser { driver, port: port.unwrap(), session: String::new() };
        let profile = format!("--user-data-dir={}", sandbox.path("chromium").display());
        // Chromium has no sandbox of its own for the superuser, which tests in containers run as.
        let args = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", &profile];
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "binary": chromium, "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let created = browser.send("POST", "/session", &capabilities);
        created["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        browser
    }

    /// Opens an address.
    pub(super) fn go(&self, url: &str) {
        self.ask("url", &json!({ "url": url }));
    }

    /// Runs a script in the page, and returns its result.
    pub(super) fn run(&self, script: &str) -> Value {
        self.ask("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Returns the visible text of the page.
    pub(super) fn text(&self) -> String {
        self.run("return document.body.innerText").as_str().unwrap().to_owned()
    }

    /// Waits until the page shows a text.
    pub(super) fn wait_for(&self, text: &str) {
        until(&format!("the page shows {text}"), || self.text().contains(text));
    }

    /// Waits until the tab has a title.
    pub(super) fn wait_for_title(&self, title: &str) {
        until(&format!("the title is {title}"), || self.run("return document.title") == title);
    }

    /// Presses keys, one after the other.
    pub(super) fn press(&self, keys: &str) {
        let moves = |key: char| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }));
        let keys: Vec<Value> = keys.chars().flat_map(moves).collect();
        self.ask("actions", &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": keys }] }));
    }

    /// Returns the errors that the console of the browser shows: also those of the content security policy.
    pub(super) fn errors(&self) -> Vec<String> {
        let lines = self.ask("se/log", &json!({ "type": "browser" }));
        let severe = lines.as_array().unwrap().iter().filter(|line| line["level"] == "SEVERE");
        severe.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
    }

    fn ask(&self, path: &str, body: &Value) -> Value {
        self.send("POST", &format!("/session/{}/{path}", self.session), body)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
            self.port
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            match line.trim().to_ascii_lowercase().split_once(':') {
                Some(("content-length", count)) => length = count.trim().parse().unwrap(),
                None if line.trim().is_empty() => break,
                _ => {}
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        let mut answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer["value"]["error"].is_null(), "{path}: {answer}");
        answer["value"].take()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.send("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
