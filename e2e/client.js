// The chat client that pages are written with: it reads chunk by chunk and keeps nothing between two reads.
async function sendMessage(message, mode, onThinking, onToken) {
  const response = await fetch('/api/chat', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ message, mode }),
  });
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let read;
  while (!(read = await reader.read()).done) {
    for (const line of decoder.decode(read.value).split('\n')) {
      if (!line.startsWith('data: ')) continue;
      const frame = JSON.parse(line.slice(6));
      if (frame.type === 'thinking') onThinking(frame.content);
      else if (frame.type === 'token') onToken(frame.content);
    }
  }
}

// Run the client and keep what it was told; what it reads and parses is listened to, not changed.
// `slowness` is how many milliseconds the page is busy with each piece.
async function listen(message, mode, slowness = 0) {
  const heard = { thinking: '', token: '', frames: [], reads: [], ascii: true };
  window.heard = heard;
  const { parse } = JSON;
  const { decode } = TextDecoder.prototype;
  JSON.parse = (text) => {
    const value = parse(text);
    heard.frames.push(value);
    return value;
  };
  TextDecoder.prototype.decode = function (bytes) {
    heard.reads.push(bytes.length);
    heard.ascii &&= bytes.every((byte) => byte < 128);
    return decode.call(this, bytes);
  };
  const told = (kind) => (content) => {
    heard[kind] += content;
    for (const end = performance.now() + slowness; performance.now() < end; );
  };
  try {
    await sendMessage(message, mode, told('thinking'), told('token'));
  } catch (error) {
    const [last, ...before] = heard.reads.toReversed();
    const sum = before.reduce((all, size) => all + size, 0);
    throw new Error(`${error.message}, in read ${heard.reads.length} of ${last} bytes after ${sum} bytes`);
  } finally {
    JSON.parse = parse;
    TextDecoder.prototype.decode = decode;
  }
  return heard;
}

// Follow a task as the browser itself does, which reconnects with the last id that it saw, until `done`.
function follow(taskId) {
  const seen = { frames: [], ids: [], connections: 0, done: null };
  window.seen = seen;
  const source = new EventSource(`/api/tasks/${taskId}/stream`);
  source.onopen = () => (seen.connections += 1);
  window.followed = new Promise((resolve) => {
    source.onmessage = ({ data, lastEventId }) => {
      const frame = JSON.parse(data);
      seen.frames.push(frame);
      if (frame.seq) seen.ids.push(lastEventId);
      if (frame.type !== 'done') return;
      source.close();
      resolve(seen);
    };
  });
}

Object.assign(window, { sendMessage, listen, follow });
