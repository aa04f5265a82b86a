// Gives pi the tools of MCP servers, which it does not know of itself. Bridge loads this into the pi that it starts
// (pi --extension), and names a file in BRIDGE_PI_SERVERS that lists the servers, in the form of the Agent Client
// Protocol. Each is started once, spoken to over its pipes, one line of JSON a message, and ended with the session.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const VARIABLE = "BRIDGE_PI_SERVERS";
const VERSION = "2025-06-18";
// Milliseconds that a server may take to say what it can do; a call may take as long as it likes.
const START_MS = 30_000;

// Bridge removes the file, which holds the servers' tokens, once pi is there; another session in the same process is
// given what was read.
function servers() {
  const key = Symbol.for("bridge.pi.servers");
  if (process.env[VARIABLE] !== undefined) {
    globalThis[key] = JSON.parse(readFileSync(process.env[VARIABLE], "utf8"));
    delete process.env[VARIABLE];
  }
  return globalThis[key] ?? [];
}

class Server {
  constructor(offer) {
    const own = Object.fromEntries((offer.env ?? []).map(({ name, value }) => [name, value]));
    this.name = offer.name;
    this.waiting = new Map();
    this.number = 0;
    this.ended = null;
    this.process = spawn(offer.command, offer.args ?? [], {
      env: { ...process.env, ...own },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.process.on("error", (error) => this.end(error.message));
    this.process.on("exit", (code, signal) => this.end(`it ended (${signal ?? code})`));
    this.process.stdin.on("error", (error) => this.end(error.message));
    createInterface({ input: this.process.stdout }).on("line", (line) => this.take(line));
  }

  end(why) {
    this.ended ??= why;
    for (const { reject } of this.waiting.values()) reject(new Error(`${this.name} gives no answer: ${this.ended}`));
    this.waiting.clear();
  }

  take(line) {
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      return; // not of the protocol
    }
    if (message.method === "notifications/progress") {
      this.waiting.get(message.params?.progressToken)?.progress?.(message.params);
    } else if (message.method === "ping") {
      this.send({ id: message.id, result: {} });
    } else if (message.method !== undefined && message.id !== undefined) {
      this.send({ id: message.id, error: { code: -32601, message: "not known here" } });
    } else if (this.waiting.has(message.id)) {
      const { resolve, reject } = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.error) reject(new Error(message.error.message ?? "refused"));
      else resolve(message.result);
    }
  }

  send(message) {
    if (this.ended === null) this.process.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  ask(method, params, { signal, progress } = {}) {
    if (this.ended !== null) return Promise.reject(new Error(`${this.name} gives no answer: ${this.ended}`));
    const id = ++this.number;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, progress });
      const told = progress ? { ...params, _meta: { progressToken: id } } : params;
      this.send({ id, method, params: told });
      signal?.addEventListener("abort", () => {
        if (!this.waiting.delete(id)) return;
        this.send({ method: "notifications/cancelled", params: { requestId: id, reason: "the turn was ended" } });
        reject(new Error("cancelled"));
      });
    });
  }

  async tools() {
    const limit = setTimeout(() => this.end(`nothing came within ${START_MS / 1000} seconds`), START_MS);
    try {
      const clientInfo = { name: "pi", version: "0" };
      await this.ask("initialize", { protocolVersion: VERSION, capabilities: {}, clientInfo });
      this.send({ method: "notifications/initialized" });
      const found = [];
      let cursor;
      do {
        const page = await this.ask("tools/list", cursor === undefined ? {} : { cursor });
        found.push(...page.tools);
        cursor = page.nextCursor;
      } while (cursor !== undefined && cursor !== null);
      return found;
    } finally {
      clearTimeout(limit);
    }
  }
}

const text = (content) => content.filter((part) => part.type === "text").map((part) => part.text).join("\n");

export default async function (pi) {
  const running = [];
  pi.on("session_shutdown", () => {
    for (const server of running) server.process.kill();
  });
  for (const offer of servers()) {
    const server = new Server(offer);
    running.push(server);
    let tools;
    try {
      tools = await server.tools();
    } catch (error) {
      // The agent can do without; Bridge says beforehand where it cannot give any.
      process.stderr.write(`bridge: no tools of ${offer.name}: ${error.message}\n`);
      continue;
    }
    for (const tool of tools) {
      pi.registerTool({
        name: tool.name,
        label: tool.title ?? tool.name,
        description: tool.description ?? tool.name,
        parameters: tool.inputSchema,
        async execute(_id, params, signal, onUpdate) {
          const progress = ({ message }) =>
            onUpdate?.({ content: [{ type: "text", text: message ?? "at work" }], details: {} });
          const result = await server.ask("tools/call", { name: tool.name, arguments: params }, { signal, progress });
          const content = (result.content ?? []).filter((part) => part.type === "text" || part.type === "image");
          if (result.isError) throw new Error(text(content) || "refused");
          return { content, details: {} };
        },
      });
    }
  }
}
