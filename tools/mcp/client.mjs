// A strict client: the official TypeScript SDK, in its first or second form, calls tools.
//
//   node client.mjs v1|v2 CALLS COMMAND [ARGUMENT]...
//
// CALLS is JSON: [[TOOL, ARGUMENTS], ...]. Prints the names of the tools, and for each call its result
// or what the client refused it for, as JSON. Both forms check structured content against the output
// schema that the server lists.

import { Client as FirstClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as FirstTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Client as SecondClient } from "@modelcontextprotocol/client";
import { StdioClientTransport as SecondTransport } from "@modelcontextprotocol/client/stdio";

const [form, calls, command, ...args] = process.argv.slice(2);
const [Client, Transport] =
  form === "v1" ? [FirstClient, FirstTransport] : [SecondClient, SecondTransport];

const client = new Client({ name: `strict-${form}`, version: "1.0.0" });
await client.connect(new Transport({ command, args }));
const { tools } = await client.listTools();
const said = { tools: tools.map((tool) => tool.name), calls: [] };
for (const [name, words] of JSON.parse(calls)) {
  try {
    said.calls.push({ result: await client.callTool({ name, arguments: words }) });
  } catch (error) {
    said.calls.push({ refused: String(error) });
  }
}
await client.close();
console.log(JSON.stringify(said));
