//! A real browser: Chromium, driven over WebDriver.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::tools::chromium;

/// How long a page may take to show something.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Chromium with one window. It ends with the value.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts it, with its files in a directory.
    pub fn start(dir: &Path) -> Browser {
        let (chromium, driver) = chromium();
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .env("HOME", dir)
            .stdout(Stdio::piped())
            .spawn()
            .expect("chromedriver starts");
        let lines = BufReader::new(driver.stdout.take().expect("the output of chromedriver")).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let port = line.split_once("started successfully on port ")?.1;
            port.trim_end_matches('.').parse().ok()
        });
        let mut browser = Browser { driver, port: port.expect("chromedriver prints its port"), session: String::new() };
        let profile = format!("--user-data-dir={}", dir.join("chromium").display());
        // Chromium has no sandbox of its own for the superuser, which tests in containers run as.
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--hide-scrollbars",
            "--enable-precise-memory-info",
            &profile,
        ];
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "binary": chromium, "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let created = browser.send("POST", "/session", &capabilities);
        created["sessionId"].as_str().expect("an answer of the driver").clone_into(&mut browser.session);
        browser
    }

    /// Opens an address.
    pub fn go(&self, url: &str) {
        self.ask("url", &json!({ "url": url }));
    }

    /// Opens another tab, goes on in it, and returns its handle. The other tabs are hidden then.
    pub fn open_tab(&self) -> String {
        let handle = self.ask("window/new", &json!({ "type": "tab" }))["handle"].as_str().expect("a tab").to_owned();
        self.use_tab(&handle);
        handle
    }

    /// Goes on in a tab that [`Browser::open_tab`] returned.
    pub fn use_tab(&self, handle: &str) {
        self.ask("window", &json!({ "handle": handle }));
    }

    /// Runs a script in the page, and returns its result.
    pub fn run(&self, script: &str) -> Value {
        self.ask("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Returns the visible text of the page.
    pub fn text(&self) -> String {
        self.run("return document.body.innerText").as_str().expect("an answer of the driver").to_owned()
    }

    /// Waits for a condition, and fails with its description and the text of the page after a timeout.
    #[track_caller]
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + TIMEOUT;
        while !is_so() {
            assert!(Instant::now() < end, "timed out waiting until {what}; the page shows: {}", self.text());
            crate::pause();
        }
    }

    /// Waits until the page shows a text.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.until(&format!("the page shows {text}"), || self.text().contains(text));
    }

    /// Waits until a script returns true.
    #[track_caller]
    pub fn wait_for_script(&self, what: &str, script: &str) {
        self.until(what, || self.run(&format!("return Boolean({script})")) == true);
    }

    /// Waits until the tab has a title.
    #[track_caller]
    pub fn wait_for_title(&self, title: &str) {
        self.until(&format!("the title is {title}"), || self.run("return document.title") == title);
    }

    /// Leads the page to one of its addresses, such as `#/issues`, and waits until the page shows that screen: until then a
    /// click would reach the former one.
    #[track_caller]
    pub fn show(&self, address: &str) {
        let _ = self.run(&format!("location.hash = {}", json!(address)));
        let shown = "(document.querySelector('main')?.dataset.address ?? '') === location.hash.replace(/^#\\/?/, '')";
        self.wait_for_script(&format!("the page shows the screen {address}"), shown);
    }

    /// Clicks the last button with this text as soon as it is there: in the open dialog, if there is one.
    ///
    /// The button is found and clicked in one step, so that nothing is drawn in between.
    #[track_caller]
    pub fn click(&self, name: &str) {
        // As with a mouse, the button gets the focus.
        let click = format!(
            "const found = [...(document.querySelector('dialog[open]') ?? document).querySelectorAll('button')]\
             .findLast((one) => one.textContent.trim() === {} && !one.disabled && one.checkVisibility());\
             found?.focus(); found?.click(); return Boolean(found)",
            json!(name)
        );
        self.until(&format!("there is a button {name}"), || self.run(&click) == true);
    }

    /// Types a text into the field of a dialog with this name, in the place of its content.
    #[track_caller]
    pub fn fill(&self, field: &str, text: &str) {
        let find = format!("document.querySelector('dialog[open] [id=field-{field}]')");
        self.wait_for_script(&format!("there is a field {field}"), &find);
        let is_choice = self.run(&format!("return {find}.tagName === 'SELECT'")) == true;
        if is_choice {
            let value = json!(text);
            let _ = self
                .run(&format!("{find}.value = {value}; {find}.dispatchEvent(new Event('input', {{ bubbles: true }}))"));
            return;
        }
        let _ = self.run(&format!("{find}.focus(); {find}.select()"));
        // Backspace removes what is selected.
        self.press("\u{e003}");
        self.press(text);
    }

    /// Types a text into the field with this label.
    #[track_caller]
    pub fn fill_labelled(&self, label: &str, text: &str) {
        let find = format!("document.querySelector('[aria-label=\"{label}\"]')");
        self.wait_for_script(&format!("there is a field {label}"), &find);
        let _ = self.run(&format!("{find}.focus(); {find}.select?.()"));
        self.press(text);
    }

    /// Runs a script that calls `done` with its result.
    pub fn run_async(&self, script: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1]; {script}");
        self.ask("execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Sends a command of the protocol of Chromium's developer tools.
    pub fn tools(&self, command: &str, params: &Value) -> Value {
        self.ask("goog/cdp/execute", &json!({ "cmd": command, "params": params }))
    }

    /// Sets the size of the window in pixels, as a phone if it is narrow, and the theme.
    pub fn set_view(&self, width: u32, height: u32, is_dark: bool) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        let _ = self.tools("Emulation.setDeviceMetricsOverride", &metrics);
        let theme = if is_dark { "dark" } else { "light" };
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        let _ = self.tools("Emulation.setEmulatedMedia", &feature);
    }

    /// Returns a picture of the window as PNG.
    pub fn screenshot(&self) -> Vec<u8> {
        let shot = self.tools("Page.captureScreenshot", &json!({ "format": "png" }));
        STANDARD.decode(shot["data"].as_str().expect("an answer of the driver")).expect("base64")
    }

    /// Presses keys, one after the other.
    pub fn press(&self, keys: &str) {
        let moves = |key: char| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }));
        let keys: Vec<Value> = keys.chars().flat_map(moves).collect();
        self.ask("actions", &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": keys }] }));
    }

    /// Presses a key while a modifier is held.
    pub fn chord(&self, modifier: char, key: char) {
        let step = |kind: &str, key: char| json!({ "type": kind, "value": key.to_string() });
        let keys = [step("keyDown", modifier), step("keyDown", key), step("keyUp", key), step("keyUp", modifier)];
        self.ask("actions", &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": keys }] }));
    }

    /// Returns the errors that the console of the browser shows: also those of the content security policy.
    pub fn errors(&self) -> Vec<String> {
        let lines = self.ask("se/log", &json!({ "type": "browser" }));
        let severe = lines.as_array().expect("an answer of the driver").iter().filter(|line| line["level"] == "SEVERE");
        severe.map(|line| line["message"].as_str().expect("an answer of the driver").to_owned()).collect()
    }

    fn ask(&self, path: &str, body: &Value) -> Value {
        self.send("POST", &format!("/session/{}/{path}", self.session), body)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection to chromedriver");
        stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a connection to chromedriver");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
            self.port
        );
        stream.write_all(request.as_bytes()).expect("a connection to chromedriver");
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a connection to chromedriver");
            match line.trim().to_ascii_lowercase().split_once(':') {
                Some(("content-length", count)) => length = count.trim().parse().expect("an answer of the driver"),
                None if line.trim().is_empty() => break,
                _ => {}
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).expect("a connection to chromedriver");
        let mut answer: Value = serde_json::from_slice(&answer).expect("an answer of the driver");
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
