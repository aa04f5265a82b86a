// Bytes of UTF-8 for a token, by the vocabularies of two vendors: what bridge/conversations/tokens.py was measured with.
// Usage: npm install --ignore-scripts @anthropic-ai/tokenizer gpt-tokenizer; node tokens.mjs FILE...
import { readFileSync } from "node:fs";
import { countTokens } from "@anthropic-ai/tokenizer";
import { encode } from "gpt-tokenizer/encoding/o200k_base";

for (const file of process.argv.slice(2)) {
  const text = readFileSync(file, "utf8").slice(0, 200_000);
  const bytes = Buffer.byteLength(text);
  console.log(file, bytes, (bytes / countTokens(text)).toFixed(2), (bytes / encode(text).length).toFixed(2));
}
