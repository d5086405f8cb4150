//! A model that the configuration names is asked, over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::bench::{Bench, assert_picture, numbers};

/// What a request said: its headers, as they came, and its body.
type Asked = (String, Value);

/// An endpoint that answers each request with this, and tells what it was asked.
fn endpoint(status: &'static str, body: String) -> (SocketAddr, Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, asked) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let said = read(&stream);
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close");
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            (&stream).write_all(answer.as_bytes()).unwrap();
            if tell.send(said).is_err() {
                break;
            }
        }
    });
    (address, asked)
}

fn read(stream: &TcpStream) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut headers = String::new();
    while !headers.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut headers).unwrap(), 0, "{headers}");
    }
    headers.make_ascii_lowercase();
    let length = headers.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    (headers, serde_json::from_slice(&body).unwrap())
}

fn says(text: &str) -> String {
    json!({
        "choices": [{ "message": { "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 100, "completion_tokens": 7 },
    })
    .to_string()
}

/// A configuration that summarizes by the model at this address, else spills.
fn bench(address: SocketAddr) -> Bench {
    Bench::with_user_file(&format!(
        "[[bands]]\nover = 1_000\naction = \"summarize\"\nthen = {{ action = \"spill\", preview_chars = 50 }}\n\
         [summarize]\nmodel = \"openai:gpt-5-mini\"\nbase_url = \"http://{address}/v1\"\n\
         api_key_env = \"TEST_KEY\"\n"
    ))
}

#[test]
fn run_and_pipe_show_what_the_named_model_wrote() {
    let (address, asked) = endpoint("200 OK", says("The numbers from 1 to 1000."));
    let bench = bench(address);
    let run = bench.command(&["run", "--", "seq", "1000"]).env("TEST_KEY", "sk-1").output();
    let run = run.unwrap();
    let (stdout, stderr) =
        (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
    assert!(stdout.contains("stored as cli/seq.") && stderr.is_empty(), "{stdout}{stderr}");
    assert!(stdout.ends_with("\nThe numbers from 1 to 1000.\n"), "{stdout}");
    assert_eq!(bench.stdout(&["export", &bench.handle()]), numbers(1_000));
    let (headers, body) = asked.recv().unwrap();
    assert!(headers.starts_with("post /v1/chat/completions ") && headers.contains("bearer sk-1"));
    assert_eq!(body["model"], "gpt-5-mini");
    assert!(body["messages"][0]["content"].as_str().unwrap().contains("\n999\n1000\n"));

    let json =
        bench.command(&["run", "--json", "--", "seq", "1000"]).env("TEST_KEY", "sk-1").output();
    let report: Value = serde_json::from_slice(&json.unwrap().stdout).unwrap();
    let usage = json!({ "requests": 1, "input_tokens": 100, "output_tokens": 7 });
    assert_eq!(report["usage"], usage);
    assert_eq!(asked.recv().unwrap().1["model"], "gpt-5-mini");

    let mut pipe = bench.assert(&["pipe"]);
    pipe.env("TEST_KEY", "sk-1").write_stdin(numbers(1_000));
    let pipe = String::from_utf8(pipe.output().unwrap().stdout).unwrap();
    assert!(pipe.ends_with("\nThe numbers from 1 to 1000.\n"), "{pipe}");
    assert_eq!(asked.iter().take(1).count(), 1);
}

/// An endpoint that never answers, and tells when it was asked.
fn silence() -> (SocketAddr, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, asked) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            read(&stream);
            if tell.send(stream).is_err() {
                break;
            }
        }
    });
    (address, asked)
}

#[test]
fn a_signal_gives_up_a_summary_and_the_chain_goes_on() {
    for args in [&["run", "--", "seq", "1000"][..], &["pipe"]] {
        let (address, asked) = silence();
        let bench = bench(address);
        let mut command = bench.command(args);
        command.env("TEST_KEY", "sk-1").stdout(Stdio::piped()).stderr(Stdio::piped());
        let numbers_1000 = bench.write("numbers", numbers(1_000));
        command.stdin(std::fs::File::open(numbers_1000).unwrap());
        let child = command.spawn().unwrap();
        // Held open: no answer will come.
        let held = asked.recv().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(held);
        let (stdout, stderr) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(stderr.contains("openai:gpt-5-mini: interrupted"), "{stderr}");
        assert!(stdout.contains("stored as cli/"), "{stdout}");
        assert_eq!(bench.stdout(&["export", &bench.handle()]), numbers(1_000));
    }
}

/// A server whose only answer has the numbers to 1000.
const SERVER: &str = r#"while read -r line; do case "$line" in *'"tools/call"'*)
printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$(seq -s '\n' 1 1000)" ;;
esac; done"#;

const CALL: &str =
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"numbers\"}}\n";

/// The proxy before that server, asked.
fn proxy(bench: &Bench, key: Option<&str>) -> (Child, ChildStdin) {
    let mut command = bench.command(&["mcp", "--", "sh", "-c", SERVER]);
    key.map(|key| command.env("TEST_KEY", key));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(CALL.as_bytes()).unwrap();
    (child, input)
}

/// The text of what it answers, and what it said.
fn answered(child: Child) -> (String, String) {
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let view = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    (view, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_proxy_shows_what_the_named_model_wrote() {
    let (address, asked) = endpoint("200 OK", says("The numbers from 1 to 1000."));
    let bench = bench(address);
    let (child, input) = proxy(&bench, Some("sk-1"));
    drop(input);
    let (view, said) = answered(child);
    assert!(view.ends_with("\nThe numbers from 1 to 1000.") && said.is_empty(), "{view}{said}");
    let (headers, _) = asked.recv().unwrap();
    assert!(headers.contains("bearer sk-1"), "{headers}");
}

#[test]
fn a_proxy_without_a_key_says_so_when_it_begins() {
    let (address, _asked) = endpoint("200 OK", says("Never."));
    let bench = bench(address);
    let (child, input) = proxy(&bench, None);
    drop(input);
    let (view, said) = answered(child);
    assert!(view.contains("stored as mcp/numbers."), "{view}");
    assert_eq!(
        said,
        "overspill: warning: nothing is summarized, the next action of the chain runs: openai:gpt-5-mini \
         is not asked: TEST_KEY is not set; \
         hint: set TEST_KEY to a key, or name a model and another variable, with model and \
         api_key_env under [summarize]\n\
         overspill: the output of numbers could not be summarized: the proxy has no model to ask\n"
    );
}

#[test]
fn a_signal_gives_up_a_summary_of_the_proxy() {
    let (address, asked) = silence();
    let bench = bench(address);
    let (child, input) = proxy(&bench, Some("sk-1"));
    // Held open: no answer will come.
    let held = asked.recv().unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let (view, said) = answered(child);
    drop((held, input));
    assert!(view.contains("stored as mcp/numbers."), "{view}");
    assert!(said.contains("openai:gpt-5-mini: interrupted"), "{said}");
}

#[test]
fn a_refused_key_is_named_by_its_variable_and_the_chain_goes_on() {
    let (address, _asked) =
        endpoint("401 Unauthorized", json!({ "error": "sk-canary" }).to_string());
    let bench = bench(address);
    let run = bench.command(&["run", "--", "seq", "1000"]).env("TEST_KEY", "sk-canary").output();
    let run = run.unwrap();
    let stderr = String::from_utf8(run.stderr).unwrap();
    assert_eq!(
        stderr,
        "overspill: warning: the output of seq could not be summarized: openai:gpt-5-mini: the key in \
         TEST_KEY was refused (status 401); set it to a key that may use this model\n"
    );
    assert!(run.status.success());
    assert!(String::from_utf8(run.stdout).unwrap().contains("stored as cli/seq."));
}

#[test]
fn config_check_says_why_nobody_will_be_asked() {
    let bench = Bench::with_file(
        "[[bands]]\nover = 10\naction = \"summarize\"\n[summarize]\nmodel = \"openai:gpt-5-mini\"\n",
    );
    assert_picture!(bench.picture(&["config", "check"]));
    let check = bench.command(&["config", "check"]).env("OPENAI_API_KEY", "sk-1").output().unwrap();
    let check = String::from_utf8(check.stdout).unwrap();
    assert!(!check.contains("note:") && !check.contains("sk-1"), "{check}");
    assert!(check.contains("[summarize]\nmodel = \"openai:gpt-5-mini\"\n"), "{check}");
}

#[test]
fn a_projects_file_sends_outputs_nowhere_else() {
    // Nothing listens there, and nobody knocks.
    let file = "[[bands]]\nover = 10\naction = \"summarize\"\n[summarize]\nmodel = \"openai:m\"\n\
                base_url = \"http://192.0.2.1/v1\"\n";
    let bench = Bench::with_file(file);
    assert_picture!(bench.picture(&["run", "--", "seq", "20"]));
    let named = bench.stdout(&["config", "check", "overspill.toml"]);
    assert!(!named.contains("note:"), "{named}");
}

#[test]
fn a_projects_file_names_no_variable_to_be_sent() {
    // Not to this machine either, where anybody may listen.
    let (address, asked) = endpoint("200 OK", says("Never."));
    let bench = Bench::with_file(&format!(
        "[[bands]]\nover = 10\naction = \"summarize\"\n[summarize]\nmodel = \"openai:m\"\n\
         base_url = \"http://{address}/v1\"\napi_key_env = \"SECRET\"\n"
    ));
    let run = bench.command(&["run", "--", "seq", "200"]).env("SECRET", "s3cret").output().unwrap();
    let stderr = String::from_utf8(run.stderr).unwrap();
    assert!(stderr.contains("the file was found in a project"), "{stderr}");
    assert!(asked.try_recv().is_err());
}

/// A request of twenty messages, for this model.
fn request(model: &str) -> String {
    let message = |at: usize| {
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        json!({ "role": role, "content": format!("{at}: {}", "words and words ".repeat(100)) })
    };
    json!({ "model": model, "messages": (0..20).map(message).collect::<Vec<_>>() }).to_string()
}

#[test]
fn fit_sums_up_by_the_named_model() {
    let (address, asked) = endpoint("200 OK", says("## Task\nTen questions, ten answers."));
    let bench = bench(address);
    bench.write("request.json", request("gpt-5"));
    let fit = [
        "fit",
        "--budget",
        "3000",
        "--strategy",
        "summarize",
        "--keep-messages",
        "4",
        "request.json",
    ];
    let output = bench.command(&fit).env("TEST_KEY", "sk-1").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("Ten questions, ten answers."));
    assert_eq!(asked.recv().unwrap().1["model"], "gpt-5-mini");
}

#[test]
fn fit_asks_the_requests_own_model_where_none_is_named() {
    let bench = Bench::new();
    bench.write("request.json", request("gpt-5"));
    let fit = |strategy: &str| {
        let output =
            bench.output(&["fit", "--budget", "3000", "--strategy", strategy, "request.json"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        // It has no key, which is said and stops nothing.
        assert!(
            stderr.contains("openai:gpt-5 is not asked: OPENAI_API_KEY is not set"),
            "{stderr}"
        );
        (output.status.code(), String::from_utf8(output.stdout).unwrap().len())
    };
    assert_eq!(fit("summarize"), (Some(1), request("gpt-5").len()));
    let (status, bytes) = fit("summarize,sliding-window");
    assert!(status == Some(0) && bytes < 15_000, "{status:?} {bytes}");
}

#[test]
fn fit_goes_on_without_a_summary_that_cannot_be_had() {
    let (address, _asked) = endpoint("400 Bad Request", json!({ "error": "no" }).to_string());
    let bench = bench(address);
    bench.write("request.json", request("gpt-5"));
    let fit = ["fit", "--budget", "3000", "--strategy", "summarize,sliding-window", "request.json"];
    let output = bench.command(&fit).env("TEST_KEY", "sk-1").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("openai:gpt-5-mini: the endpoint answered with status 400: no"),
        "{stderr}"
    );
    let left: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(left["messages"].as_array().unwrap().len() < 20);
}
