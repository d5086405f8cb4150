// Measures what the proxy adds to a tool call, side by side with a direct connection in one run.
//
//   node latency.mjs OVERSPILL SERVER [ROUNDS]
//
// SERVER is suite-server.mjs. Each row is one transport, one size of result and so many calls at
// once; batches go to the server directly and through the proxy by turns, so that whatever else the
// machine does hits both. Every result is another text: results of 1 MB are stored one by one.
// The clients are no SDK's, so that what is measured is not theirs.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [overspill, server, rounds = "20"] = process.argv.slice(2);
const ROUNDS = Number(rounds);
// Calls before the first that counts: both sides compile and connect.
const WARM_UP = 2;
const SIZES = { "1 KB": 1_000, "1 MB": 1_000_000 };
const AT_ONCE = [1, 64];

const INITIALIZE = {
  protocolVersion: "2025-06-18",
  capabilities: {},
  clientInfo: { name: "latency", version: "1.0.0" },
};

class Stdio {
  #waiting = new Map();
  #last = 0;

  constructor(command) {
    this.process = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
    createInterface({ input: this.process.stdout }).on("line", (line) => {
      const message = JSON.parse(line);
      this.#waiting.get(message.id)?.(message);
      this.#waiting.delete(message.id);
    });
  }

  get proxy() {
    return this.process.pid;
  }

  async open() {
    await this.request("initialize", INITIALIZE);
    this.#send({ method: "notifications/initialized" });
    return this;
  }

  request(method, params) {
    const id = ++this.#last;
    const answer = new Promise((done) => this.#waiting.set(id, done));
    this.#send({ id, method, params });
    return answer;
  }

  #send(message) {
    this.process.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  async close() {
    await ended(this.process, () => this.process.stdin.end());
  }
}

class Http {
  #headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  #last = 0;

  constructor(processes, url) {
    this.processes = processes;
    this.url = url;
  }

  get proxy() {
    return this.processes[0].pid;
  }

  async open() {
    await this.request("initialize", INITIALIZE);
    await this.#post({ method: "notifications/initialized" });
    return this;
  }

  async request(method, params) {
    const id = ++this.#last;
    const response = await this.#post({ id, method, params });
    const session = response.headers.get("mcp-session-id");
    if (session) this.#headers["mcp-session-id"] = session;
    const body = await response.text();
    if (!response.ok) throw new Error(`${response.status}: ${body}`);
    if (!response.headers.get("content-type").startsWith("text/event-stream")) return JSON.parse(body);
    const events = body.split(/\r?\n/).filter((line) => line.startsWith("data: {"));
    return events.map((line) => JSON.parse(line.slice(6))).find((message) => message.id === id);
  }

  #post(message) {
    const body = JSON.stringify({ jsonrpc: "2.0", ...message });
    return fetch(this.url, { method: "POST", headers: this.#headers, body });
  }

  async close() {
    for (const process of this.processes) await ended(process, () => process.kill());
  }
}

function ended(process, end) {
  const exit = new Promise((done) => process.once("exit", done));
  end();
  return exit;
}

// Starts what says its address on either of its outputs.
async function listening(command) {
  const process = spawn(command[0], command.slice(1), { stdio: ["ignore", "pipe", "pipe"] });
  const url = await new Promise((found, failed) => {
    let said = "";
    for (const output of [process.stdout, process.stderr]) {
      output.on("data", (data) => {
        said += data;
        const match = /http:\/\/\S+\/mcp/.exec(said);
        if (match) found(match[0]);
      });
    }
    process.once("exit", () => failed(new Error(`${command.join(" ")}: ${said}`)));
  });
  return [process, url];
}

const node = process.execPath;
const connect = {
  stdio: {
    direct: async () => new Stdio([node, server]).open(),
    proxied: async (store) =>
      new Stdio([overspill, "mcp", "--store", store, "--", node, server]).open(),
  },
  HTTP: {
    direct: async () => {
      const [process, url] = await listening([node, server, "--http"]);
      return new Http([process], url).open();
    },
    proxied: async (store) => {
      const [behind, url] = await listening([node, server, "--http"]);
      const listen = ["--url", url, "--listen", "127.0.0.1:0"];
      const [proxy, own] = await listening([overspill, "mcp", "--store", store, ...listen]);
      return new Http([proxy, behind], own).open();
    },
  },
};

let calls = 0;

async function timed(client, length) {
  const number = ++calls;
  const begun = performance.now();
  const answer = await client.request("tools/call", { name: "say", arguments: { length, number } });
  const took = performance.now() - begun;
  const text = answer.result?.content?.[0]?.text;
  if (!text?.includes(`${number}\n`)) throw new Error(`a wrong answer: ${JSON.stringify(answer).slice(0, 300)}`);
  return took;
}

const batch = (client, length, atOnce) =>
  Promise.all(Array.from({ length: atOnce }, () => timed(client, length)));

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1];
}

const peak = (pid) => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1000;

async function row(transport, size, atOnce) {
  const store = mkdtempSync(join(tmpdir(), "overspill-latency-"));
  const direct = await connect[transport].direct();
  const proxied = await connect[transport].proxied(store);
  const times = { direct: [], proxied: [] };
  // As many calls as make a median, and no more than a minute of them.
  const batches = atOnce === 1 ? 10 * ROUNDS : Math.ceil(ROUNDS / Math.max(1, SIZES[size] / 100_000));
  for (let round = -WARM_UP; round < batches; round++) {
    for (const [name, client] of [["direct", direct], ["proxied", proxied]]) {
      const took = await batch(client, SIZES[size], atOnce);
      if (round >= 0) times[name].push(...took);
    }
  }
  const memory = peak(proxied.proxy);
  await direct.close();
  await proxied.close();
  rmSync(store, { recursive: true });
  const [before, after] = [median(times.direct), median(times.proxied)];
  return [transport, size, atOnce, times.direct.length, before, after, after - before, memory];
}

// What Node has to say of the server's SDK is not the matter here.
process.env.NODE_NO_WARNINGS = "1";

const columns = ["transport", "result", "at once", "calls", "direct ms", "proxied ms", "added ms", "peak MB"];
const show = (cells) => console.log(cells.map((cell) =>
  (typeof cell === "number" && !Number.isInteger(cell) ? cell.toFixed(2) : String(cell)).padStart(10)).join(" "));
show(columns);
for (const transport of Object.keys(connect)) {
  for (const size of Object.keys(SIZES)) {
    for (const atOnce of AT_ONCE) show(await row(transport, size, atOnce));
  }
}
