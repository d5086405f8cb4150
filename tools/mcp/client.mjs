// A strict client: the official TypeScript SDK, in its first or second form, calls one tool.
//
//   node client.mjs v1|v2 TOOL ARGUMENTS COMMAND [ARGUMENT]...
//
// Prints the names of the tools, and the result or what the client refused it for, as JSON. Both
// forms check structured content against the output schema that the server lists.

import { Client as FirstClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as FirstTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Client as SecondClient } from "@modelcontextprotocol/client";
import { StdioClientTransport as SecondTransport } from "@modelcontextprotocol/client/stdio";

const [form, name, words, command, ...args] = process.argv.slice(2);
const [Client, Transport] =
  form === "v1" ? [FirstClient, FirstTransport] : [SecondClient, SecondTransport];

const client = new Client({ name: `strict-${form}`, version: "1.0.0" });
await client.connect(new Transport({ command, args }));
const { tools } = await client.listTools();
const said = { tools: tools.map((tool) => tool.name) };
try {
  said.result = await client.callTool({ name, arguments: JSON.parse(words) });
} catch (error) {
  said.refused = String(error);
}
await client.close();
console.log(JSON.stringify(said));
