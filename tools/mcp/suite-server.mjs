// A server written with the official TypeScript SDK that has the tools, resources and prompts the
// conformance suite asks for, by the names it asks for them.
//
//   node suite-server.mjs            over standard input and output
//   node suite-server.mjs --http     over streamable HTTP; prints its address on the first line
//
// The low-level `Server` is used, so that what is listed is exactly what stands here.

import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { InMemoryEventStore } from "@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js";
import { createMcpExpressApp } from "@modelcontextprotocol/sdk/server/express.js";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import {
  CallToolRequestSchema,
  CompleteRequestSchema,
  CreateMessageResultSchema,
  ElicitResultSchema,
  ErrorCode,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  SetLevelRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";

// One red pixel, and a wave file of no samples.
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

// How long a tool works between two of its messages, as the suite asks.
const STEP_MS = 50;

const text = (text) => ({ type: "text", text });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const says = (...content) => ({ content });
const embedded = (uri, mimeType, text) => ({ type: "resource", resource: { uri, mimeType, text } });
const nothing = { type: "object", properties: {} };
const strings = (...names) => ({
  type: "object",
  properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
  required: names,
});

async function elicit(extra, message, properties, required) {
  const requestedSchema = { type: "object", properties, required };
  const request = { method: "elicitation/create", params: { message, requestedSchema } };
  const answer = await extra.sendRequest(request, ElicitResultSchema);
  const content = JSON.stringify(answer.content ?? {});
  return says(text(`Elicitation completed: action=${answer.action}, content=${content}`));
}

const options = (prefix, title) => [1, 2, 3].map((n) => ({ const: `${prefix}${n}`, title: `${title} ${n}` }));

// name: [description, input schema, what it does]
const TOOLS = {
  test_simple_text: ["Says a text", nothing, () =>
    says(text("This is a simple text response for testing."))],
  test_image_content: ["Shows an image", nothing, () => says(image)],
  test_audio_content: ["Plays a sound", nothing, () =>
    says({ type: "audio", data: WAV, mimeType: "audio/wav" })],
  test_embedded_resource: ["Embeds a resource", nothing, () =>
    says(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))],
  test_multiple_content_types: ["Shows a text, an image and a resource", nothing, () =>
    says(
      text("Multiple content types test:"),
      image,
      embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    )],
  test_tool_with_logging: ["Logs while it works", nothing, async (_, extra) => {
    const log = (data) =>
      extra.sendNotification({ method: "notifications/message", params: { level: "info", data } });
    await log("Tool execution started");
    await pause(STEP_MS);
    await log("Tool processing data");
    await pause(STEP_MS);
    await log("Tool execution completed");
    return says(text("Logged three messages."));
  }],
  test_tool_with_progress: ["Reports progress while it works", nothing, async (_, extra) => {
    const progressToken = extra._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      const params = { progressToken, progress, total: 100 };
      if (progressToken !== undefined) {
        await extra.sendNotification({ method: "notifications/progress", params });
      }
      if (progress < 100) await pause(STEP_MS);
    }
    return says(text("Reported progress."));
  }],
  test_error_handling: ["Always fails", nothing, () => ({
    isError: true,
    content: [text("This tool intentionally returns an error for testing")],
  })],
  test_sampling: ["Asks the client's model", strings("prompt"), async ({ prompt }, extra) => {
    const params = { messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 };
    const request = { method: "sampling/createMessage", params };
    const answer = await extra.sendRequest(request, CreateMessageResultSchema);
    return says(text(`LLM response: ${answer.content.text}`));
  }],
  test_elicitation: ["Asks the user", strings("message"), ({ message }, extra) => {
    const properties = {
      username: { type: "string", description: "User's response" },
      email: { type: "string", description: "User's email address" },
    };
    return elicit(extra, message, properties, ["username", "email"]);
  }],
  test_elicitation_sep1034_defaults: ["Asks the user, with defaults", nothing, (_, extra) => {
    const properties = {
      name: { type: "string", description: "User name", default: "John Doe" },
      age: { type: "integer", description: "User age", default: 30 },
      score: { type: "number", description: "User score", default: 95.5 },
      status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
      verified: { type: "boolean", description: "Verification status", default: true },
    };
    return elicit(extra, "Please review and update the form fields with defaults", properties, []);
  }],
  test_elicitation_sep1330_enums: ["Asks the user, with every kind of enum", nothing, (_, extra) => {
    const properties = {
      untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
      titledSingle: { type: "string", oneOf: options("value", "Option") },
      legacyEnum: {
        type: "string",
        enum: ["opt1", "opt2", "opt3"],
        enumNames: ["Option One", "Option Two", "Option Three"],
      },
      untitledMulti: {
        type: "array",
        items: { type: "string", enum: ["option1", "option2", "option3"] },
      },
      titledMulti: { type: "array", items: { anyOf: options("value", "Choice") } },
    };
    return elicit(extra, "Please choose", properties, []);
  }],
  json_schema_2020_12_tool: ["Tool with JSON Schema 2020-12 features", {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    $defs: {
      address: {
        type: "object",
        properties: { street: { type: "string" }, city: { type: "string" } },
      },
    },
    properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
    additionalProperties: false,
  }, ({ name }) => says(text(`Hello ${name}`))],
  say: ["Says so many characters, which begin with a number; for measurements", {
    type: "object",
    properties: { length: { type: "integer" }, number: { type: "integer" } },
    required: ["length", "number"],
  }, ({ length, number }) => says(text(`${number}\n${"a line of text, as a log has it\n".repeat(length / 32 + 1)}`.slice(0, length)))],
  test_reconnection: ["Closes its stream before it answers", nothing, async (_, extra) => {
    extra.closeSSEStream?.();
    await pause(2 * STEP_MS);
    return says(text("Answered after the stream was closed."));
  }],
};

const RESOURCES = {
  "test://static-text": ["text/plain", { text: "This is the content of the static text resource." }],
  "test://static-binary": ["image/png", { blob: PNG }],
  "test://watched-resource": ["text/plain", { text: "Watched resource content" }],
};

const TEMPLATE = /^test:\/\/template\/([^/]+)\/data$/;

// name: [arguments, messages]
const PROMPTS = {
  test_simple_prompt: [[], () => [text("This is a simple prompt for testing.")]],
  test_prompt_with_arguments: [["arg1", "arg2"], ({ arg1, arg2 }) =>
    [text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)]],
  test_prompt_with_embedded_resource: [["resourceUri"], ({ resourceUri }) => [
    embedded(resourceUri, "text/plain", "Embedded resource content for testing."),
    text("Please process the embedded resource above."),
  ]],
  test_prompt_with_image: [[], () => [image, text("Please analyze the image above.")]],
};

function known(table, name, what) {
  if (Object.hasOwn(table, name)) return table[name];
  throw new McpError(ErrorCode.InvalidParams, `unknown ${what}: ${name}`);
}

function createServer() {
  const capabilities = {
    tools: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    prompts: { listChanged: true },
    logging: {},
    completions: {},
  };
  const server = new Server({ name: "suite-server", version: "1.0.0" }, { capabilities });

  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: Object.entries(TOOLS).map(([name, [description, inputSchema]]) =>
      ({ name, description, inputSchema })),
  }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }, extra) =>
    known(TOOLS, params.name, "tool")[2](params.arguments ?? {}, extra));

  server.setRequestHandler(ListResourcesRequestSchema, () => ({
    resources: Object.entries(RESOURCES).map(([uri, [mimeType]]) =>
      ({ uri, name: uri.slice("test://".length), description: "A resource for testing", mimeType })),
  }));
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [{
      uriTemplate: "test://template/{id}/data",
      name: "template",
      description: "A resource template with a parameter",
      mimeType: "application/json",
    }],
  }));
  server.setRequestHandler(ReadResourceRequestSchema, ({ params: { uri } }) => {
    const id = TEMPLATE.exec(uri)?.[1];
    if (id !== undefined) {
      const text = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
      return { contents: [{ uri, mimeType: "application/json", text }] };
    }
    const [mimeType, content] = known(RESOURCES, uri, "resource");
    return { contents: [{ uri, mimeType, ...content }] };
  });
  const subscribed = new Set();
  server.setRequestHandler(SubscribeRequestSchema, ({ params: { uri } }) => {
    known(RESOURCES, uri, "resource");
    subscribed.add(uri);
    return {};
  });
  server.setRequestHandler(UnsubscribeRequestSchema, ({ params: { uri } }) => {
    subscribed.delete(uri);
    return {};
  });

  server.setRequestHandler(ListPromptsRequestSchema, () => ({
    prompts: Object.entries(PROMPTS).map(([name, [names]]) => ({
      name,
      description: "A prompt for testing",
      arguments: names.map((name) => ({ name, description: "An argument", required: true })),
    })),
  }));
  server.setRequestHandler(GetPromptRequestSchema, ({ params }) => {
    const [, contents] = known(PROMPTS, params.name, "prompt");
    return { messages: contents(params.arguments ?? {}).map((content) => ({ role: "user", content })) };
  });
  server.setRequestHandler(CompleteRequestSchema, ({ params }) => {
    const values = ["paris", "park", "party"].filter((it) => it.startsWith(params.argument.value));
    return { completion: { values, total: values.length, hasMore: false } };
  });
  server.setRequestHandler(SetLevelRequestSchema, () => ({}));
  return server;
}

async function serveHttp() {
  const sessions = new Map();
  // It refuses foreign values of Host by itself.
  const app = createMcpExpressApp();
  app.all("/mcp", async (request, response) => {
    const id = request.headers["mcp-session-id"];
    let transport = sessions.get(id);
    if (transport === undefined && id !== undefined) {
      const error = { code: -32001, message: "Session not found" };
      response.status(404).json({ jsonrpc: "2.0", error, id: null });
      return;
    }
    if (transport === undefined) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: new InMemoryEventStore(),
        // Clients that were cut off come back after so many milliseconds.
        retryInterval: 100,
        onsessioninitialized: (id) => sessions.set(id, transport),
        onsessionclosed: (id) => sessions.delete(id),
      });
      await createServer().connect(transport);
    }
    await transport.handleRequest(request, response, request.body);
  });
  const listener = app.listen(0, "127.0.0.1", () => {
    console.log(`http://127.0.0.1:${listener.address().port}/mcp`);
  });
}

if (process.argv[2] === "--http") {
  await serveHttp();
} else {
  await createServer().connect(new StdioServerTransport());
}
