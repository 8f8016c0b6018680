//! Hostile texts in every field of every record are shown as text, and nothing of them runs.

use serde_json::json;

use super::open;
use crate::serving::Server;

/// Texts that run, load or redirect something in a page that does not escape them. `N` is replaced by a number.
const CORPUS: &[&str] = &[
    "<script>window.hacked=N</script>",
    "<img src=x onerror=window.hacked=N>",
    "\"><svg onload=window.hacked=N>",
    "'><iframe srcdoc='<script>parent.hacked=N</script>'></iframe>",
    "<svg><animate onbegin=window.hacked=N attributeName=x dur=1s></svg>",
    "<math><mtext><style><img src=x onerror=window.hacked=N></style></mtext></math>",
    "javascript:window.hacked=N",
    "data:text/html,<script>window.hacked=N</script>",
    "<a href=\"javascript:window.hacked=N\">link</a>",
    "<base href=//example.org/><meta http-equiv=refresh content=\"0;url=//example.org\">",
    "${window.hacked=N} {{constructor.constructor('window.hacked=N')()}} <%= window.hacked=N %>",
    "</textarea></title></script><script>window.hacked=N</script>",
    "<form action=//example.org><input autofocus onfocus=window.hacked=N>",
    "<details open ontoggle=window.hacked=N>",
    "\u{202e}gnp.exe\u{2066}\u{200b}\u{feff} right to left",
    "\\u003cscript\\u003ewindow.hacked=N\\u003c/script\\u003e &lt;script&gt;",
    "__proto__ constructor toString",
];

fn text() -> String {
    let texts = CORPUS.iter().enumerate();
    texts.map(|(number, text)| text.replace('N', &(number + 1).to_string())).collect::<Vec<_>>().join(" ")
}

#[test]
fn hostile_texts_in_every_field_are_shown_and_never_run() {
    let server = Server::start(&["--open"]);
    let (all, line) = (text(), text().replace(['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}'], ""));
    let all = all.as_str();
    let plan = json!({ "summary": all, "tasks": [
        { "name": "build", "description": all, "acceptance": [all], "max_attempts": 1, "context": { "note": all } },
        { "name": "ask", "description": all },
        { "name": "done", "description": all },
    ] });
    server.sandbox.write("repo/plan.json", plan.to_string());
    let way = |args: &[&str]| assert_eq!(server.way(args).code, 0, "{args:?}: {}", server.way(args).stderr);
    way(&[
        "add",
        &line,
        "-d",
        all,
        "--acceptance",
        all,
        "--design",
        all,
        "--notes",
        all,
        "-l",
        "<b>label</b>",
        "--assignee",
        "<i>ann</i>",
    ]);
    let issue = server.way(&["list", "--json"]).data()[0]["id"].as_str().unwrap().to_owned();
    way(&["comment", &issue, all]);
    way(&["workflow", "create", "release", "--plan", "plan.json", "--start"]);
    way(&["task", "claim", "build", "--agent", "ann"]);
    way(&["task", "checkpoint", "build", "--agent", "ann", "--summary", all]);
    way(&["task", "fail", "build", "--agent", "ann", "--error", all]);
    way(&["task", "claim", "ask", "--agent", "bob"]);
    way(&["task", "ask", "ask", "--agent", "bob", "--question", all]);
    way(&["task", "claim", "done", "--agent", "cid"]);
    way(&["task", "done", "done", "--agent", "cid", "--outcome", all, "--evidence", all]);
    way(&["msg", "send", "ann", all, "--subject", &line, "--agent", "bob"]);
    let job =
        server.way(&["job", "start", "--quiet", "--keep", "--", "sh", "-c", "printf '%s\\n' \"$0\"; exit 3", all]);
    assert_ne!(job.code, 0);
    let job = server.way(&["job", "list", "--json"]).data()[0]["id"].as_str().unwrap().to_owned();
    let workspace = server.way(&["ws", "list", "--json"]).data()[0]["id"].as_str().unwrap().to_owned();
    let task = |name: &str| server.way(&["task", "show", name, "--json"]).data()["id"].as_str().unwrap().to_owned();
    let browser = open(&server);
    let mark = "window.hacked=1";
    let screens = [
        ("#/now".to_owned(), mark),
        ("#/workflows".to_owned(), mark),
        ("#/workflows/release".to_owned(), mark),
        (format!("#/task/{}", task("build")), mark),
        (format!("#/task/{}", task("ask")), mark),
        (format!("#/task/{}", task("done")), mark),
        ("#/issues".to_owned(), mark),
        (format!("#/issues/{issue}"), mark),
        ("#/agents".to_owned(), "cid"),
        ("#/workspaces".to_owned(), "waypost/"),
        (format!("#/workspaces/{workspace}"), "Directory"),
        ("#/jobs".to_owned(), mark),
        (format!("#/jobs/{job}"), mark),
        ("#/events".to_owned(), "task.asked"),
        ("#/repositories".to_owned(), "repo"),
        (format!("#/issues?text={}", "%3Cimg%20src=x%20onerror=window.hacked=99%3E"), "No issue matches."),
        ("#/<img src=x onerror=window.hacked=98>".to_owned(), "No such page"),
    ];
    for (address, text) in &screens {
        browser.show(address);
        browser.wait_for(text);
        let strange = "return document.querySelectorAll('main img, main iframe, main script, main svg[onload], main base, main meta, \
            main math, [onerror], [onload], [onclick], a[href^=javascript], a[href^=data]').length";
        assert_eq!(browser.run(strange), 0, "{address}");
        assert!(browser.run("return window.hacked ?? null").is_null(), "{address} ran a text");
    }
    // The dialogs show them, too.
    browser.show(&format!("#/issues/{issue}"));
    browser.click("Edit");
    browser.wait_for_script(
        "the dialog is open",
        "document.getElementById('field-description')?.value.includes('hacked')",
    );
    browser.press("\u{e00c}");
    browser.show(&format!("#/task/{}", task("ask")));
    browser.fill_labelled("Answer", "<script>window.hacked=1</script>\u{e007}");
    browser.wait_for("Answered ask.");
    assert!(browser.run("return window.hacked ?? null").is_null());
    assert_eq!(browser.run("return location.host"), server.host());
    assert_eq!(browser.errors(), [""; 0]);
}
