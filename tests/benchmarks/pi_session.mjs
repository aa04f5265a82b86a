// Opening a conversation with Pi's own session manager and building its context: times in ms, one per line.
// Usage: node pi_session.mjs SESSION.jsonl ROUNDS (with the package in node_modules beside it)
import { dirname } from "node:path";
import { SessionManager } from "@mariozechner/pi-coding-agent";

const [file, rounds] = process.argv.slice(2);
for (let round = 0; round < Number(rounds); round += 1) {
  const start = performance.now();
  const { messages } = SessionManager.open(file, dirname(file)).buildSessionContext();
  console.log(JSON.stringify({ ms: performance.now() - start, messages: messages.length }));
}
