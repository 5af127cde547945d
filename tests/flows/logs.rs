//! What a server wrote, from a terminal: beside the eVi that runs it, and after that has ended.

use std::{
    process::Stdio,
    sync::{Arc, Mutex},
};

use evi_tests::{House, house, until};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

/// `evi mcp logs box --follow` and what it printed so far.
struct Follower {
    child: tokio::process::Child,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Follower {
    fn starts(house: &House) -> Self {
        let mut command = house.command();
        command.args(["mcp", "logs", "box", "--follow"]).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let writing = heard.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                writing.lock().unwrap().push(line);
            }
        });
        Self { child, heard }
    }

    async fn prints(&self, text: &str, times: usize) {
        let count = || self.heard.lock().unwrap().iter().filter(|line| line.ends_with(text)).count();
        until(&format!("the follower to print {text} {times} times"), || async {
            (count() >= times).then_some(())
        })
        .await;
        assert_eq!(count(), times, "no line twice: {:?}", self.heard.lock().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_server_is_printed_and_followed_over_the_end_of_who_runs_it() {
    let house = house().with_servers_on();
    let program = house.server("box", "plain");
    let house = house.with_server("box", &program);
    let err = house.evi(["mcp", "logs", "nobody"]).await.failed(1);
    assert_eq!(err, "error: no such server: nobody\n");
    let said = house.evi(["mcp", "logs", "box"]).await;
    assert_eq!((said.status, said.out.as_str()), (0, ""));
    assert_eq!(house.notes("box"), [""; 0], "looking starts nothing");

    let person = house.opens().await;
    person.sees("box", "ready").await;
    let mut follower = Follower::starts(&house);
    let leak = json!({"tool": "box.leak", "arguments": {}});
    person.is_refused("tool_call", leak.clone()).await;
    follower.prints(" stderr my secret is <unset>", 1).await;

    let said = house.evi(["mcp", "logs", "box", "--json"]).await.done();
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(json!(lines), person.does("upstream_log", json!({"name": "box"})).await["lines"]);
    assert_eq!(house.notes("box").iter().filter(|n| *n == "started").count(), 1, "looking starts nothing");

    // The window closes; what is on disk is the same, and the next one to run the server is followed, too.
    person.quits().await;
    let on_disk = || async {
        let said = house.evi(["mcp", "logs", "box"]).await.done();
        said.contains("stderr my secret is <unset>").then_some(said)
    };
    let said = until("the log to be on disk", on_disk).await;
    let time = said.lines().next().unwrap().split(' ').next().unwrap();
    assert!(time.starts_with("20") && time.ends_with('Z'), "{said}");
    let person = house.opens().await;
    person.sees("box", "ready").await;
    person.is_refused("tool_call", leak).await;
    follower.prints(" stderr my secret is <unset>", 2).await;
    follower.child.kill().await.unwrap();
    person.quits().await;
}
