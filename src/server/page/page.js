// The chat page: one conversation, kept in this tab, asked of /v1/chat/completions as any client does.
'use strict';

const at = (id) => document.getElementById(id);
const chat = at('chat'), question = at('question'), statusLine = at('status');

// What the server is sent. An answer also has `notes`, which stay here.
let messages = [];
let running = null;  // The AbortController of the answer that is coming.

// --- small things --------------------------------------------------------------------------------------------------------

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function button(label, action) {
  const element = make('button', '', label);
  element.type = 'button';
  element.addEventListener('click', action);
  return element;
}

function say(text, isProblem = false) {
  statusLine.textContent = text;
  statusLine.className = isProblem ? 'problem' : '';
}

function headers() {
  const key = at('key').value;
  return {'Content-Type': 'application/json', ...(key ? {Authorization: `Bearer ${key}`} : {})};
}

// --- the request ---------------------------------------------------------------------------------------------------------

const NUMBERS = ['temperature', 'top_p', 'top_k', 'seed', 'max_tokens'];

function requestBody() {
  const system = at('system').value.trim();
  const sent = messages.map(({notes, ...message}) => message);
  const body = {
    model: at('model').dataset.id,
    messages: system ? [{role: 'system', content: system}, ...sent] : sent,
    stream: true,
    stream_options: {include_usage: true},
    return_progress: true,
    chat_template_kwargs: {enable_thinking: at('thinking').checked},
  };
  for (const name of NUMBERS) {
    if (at(name).value !== '') body[name] = Number(at(name).value);
  }
  const tools = at('tools').value.trim();
  if (tools) body.tools = JSON.parse(tools);
  return body;
}

// Calls `take` with each event's data.
async function readEvents(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    pending += value;
    const blocks = pending.split('\n\n');
    pending = blocks.pop();
    for (const line of blocks.flatMap((block) => block.split('\n'))) {
      if (line.startsWith('data: ') && line !== 'data: [DONE]') take(JSON.parse(line.slice(6)));
    }
  }
}

async function problemOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answered ${response.status}`;
  }
}

// --- an answer as it comes -----------------------------------------------------------------------------------------------

class ComingAnswer {
  constructor() {
    this.message = {role: 'assistant', content: '', notes: {}};
    this.begun = performance.now();
    this.view = new MessageView(this.message, messages.length);
    this.view.element.setAttribute('aria-busy', 'true');
  }

  take(chunk) {
    if (chunk.error) throw new Error(chunk.error.message);
    if (chunk.prompt_progress) {
      const {processed, total} = chunk.prompt_progress;
      if (processed < total) say(`Reading the prompt: ${processed} of ${total} tokens`);
    }
    const choice = chunk.choices && chunk.choices[0];
    if (choice) this.takeChoice(choice);
    if (chunk.lily) this.message.notes.lily = chunk.lily;
    if (chunk.usage) this.message.notes.usage = chunk.usage;
    this.view.update();
  }

  takeChoice({delta, finish_reason: finish}) {
    const message = this.message;
    if (delta.content) message.content += delta.content;
    if (delta.reasoning_content) message.reasoning_content = (message.reasoning_content || '') + delta.reasoning_content;
    for (const piece of delta.tool_calls || []) {
      message.tool_calls = message.tool_calls || [];
      const call = message.tool_calls[piece.index];
      if (!call) message.tool_calls[piece.index] = {id: piece.id, type: 'function', function: {...piece.function}};
      else call.function.arguments += piece.function.arguments;
    }
    if (finish) message.notes.finish = finish;
  }

  finish(stopped) {
    if (stopped) this.message.notes.finish = 'stopped';
    this.view.element.removeAttribute('aria-busy');
    if (!this.message.tool_calls || this.message.notes.finish !== 'tool_calls') delete this.message.tool_calls;
    messages.push(this.message);
    this.view.finish();
  }
}

async function answer() {
  running = new AbortController();
  setBusy(true);
  say('Waiting for the answer');
  const coming = new ComingAnswer();
  let stopped = false;
  try {
    const response = await fetch('/v1/chat/completions', {
      method: 'POST', headers: headers(), body: JSON.stringify(requestBody()), signal: running.signal,
    });
    if (!response.ok) throw new Error(await problemOf(response));
    await readEvents(response, (chunk) => coming.take(chunk));
  } catch (error) {
    stopped = error.name === 'AbortError';
    if (!stopped) {
      coming.view.element.remove();
      say(`That did not work: ${error.message}`, true);
      setBusy(false);
      return;
    }
  }
  coming.finish(stopped);
  say(stopped ? 'Stopped' : 'The answer is complete');
  setBusy(false);
}

function setBusy(busy) {
  if (!busy) running = null;
  at('send').hidden = busy;
  at('stop').hidden = !busy;
  if (!busy) question.focus();
}

// --- the conversation on the page ----------------------------------------------------------------------------------------

const NAMES = {user: 'You', assistant: 'Lily', tool: 'Result of a tool'};

class MessageView {
  constructor(message, index) {
    this.message = message;
    this.index = index;
    this.element = make('article', `message ${message.role}`);
    this.element.append(make('h2', '', NAMES[message.role]));
    this.thoughts = make('details');
    this.thoughts.append(make('summary', '', 'Thinking'), make('div', 'text'));
    this.thoughts.hidden = true;
    this.text = make('div', 'text');
    this.calls = make('div');
    this.notes = make('p', 'notes');
    this.tools = make('div', 'tools');
    this.element.append(this.thoughts, this.text, this.calls, this.notes, this.tools);
    chat.append(this.element);
    this.update();
  }

  update() {
    const atEnd = chat.scrollHeight - chat.scrollTop - chat.clientHeight < 80;
    const {content, reasoning_content: thoughts, tool_calls: calls} = this.message;
    this.text.textContent = content || '';
    this.thoughts.hidden = !thoughts;
    this.thoughts.lastChild.textContent = thoughts || '';
    this.calls.replaceChildren(...(calls || []).map((call) => make('div', 'call', `${call.function.name} ${call.function.arguments}`)));
    this.notes.textContent = describe(this.message.notes);
    if (atEnd) chat.scrollTop = chat.scrollHeight;
  }

  // The answer is whole: what can be done with it.
  finish() {
    this.update();
    const {role, tool_calls: calls} = this.message;
    if (role === 'user') this.tools.append(button('Edit', () => edit(this.index)));
    if (role === 'assistant') this.tools.append(button('Regenerate', () => regenerate(this.index)), button('Copy', () => copy(this.message)));
    if (role === 'assistant' && calls) this.calls.append(this.resultForm(calls));
  }

  // Calls wait for their results: the page runs nothing by itself.
  resultForm(calls) {
    const form = make('form');
    const fields = calls.map((call, i) => {
      const label = make('label', '', `Result of ${call.function.name} (${i + 1})`);
      const field = make('textarea');
      field.rows = 2;
      label.append(field);
      form.append(label);
      return field;
    });
    const send = make('button', '', 'Send results');
    form.append(send);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (running) return;
      form.remove();
      calls.forEach((call, i) => add({role: 'tool', tool_call_id: call.id, content: fields[i].value}));
      answer();
    });
    return form;
  }
}

function describe(notes) {
  const {usage, lily, finish} = notes || {};
  const parts = [];
  if (usage && lily) {
    const rate = lily.decode_seconds > 0 ? (usage.completion_tokens / lily.decode_seconds).toFixed(1) : '–';
    parts.push(`${usage.completion_tokens} tokens`, `${rate} tokens/s`);
    parts.push(`prompt ${usage.prompt_tokens} tokens, ${usage.prompt_tokens_details.cached_tokens} cached`);
  }
  if (finish === 'length') parts.push('cut off by the length limit');
  if (finish === 'stopped') parts.push('stopped');
  return parts.join(' · ');
}

function add(message) {
  messages.push(message);
  new MessageView(message, messages.length - 1).finish();
}

// Back to before a message.
function cutBefore(index) {
  messages = messages.slice(0, index);
  while (chat.children.length > index) chat.lastChild.remove();
}

function edit(index) {
  if (running) return;
  const text = messages[index].content;
  cutBefore(index);
  question.value = text;
  fitQuestion();
  question.focus();
  say('Change the question and send it again');
}

function regenerate(index) {
  if (running) return;
  cutBefore(index);
  answer();
}

async function copy(message) {
  await navigator.clipboard.writeText(message.content || '');
  say('Copied');
}

// --- the form ------------------------------------------------------------------------------------------------------------

function fitQuestion() {
  question.style.height = 'auto';
  question.style.height = `${question.scrollHeight}px`;
}

at('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = question.value.trim();
  if (!text || running) return;
  try {
    requestBody();
  } catch {
    say('The list of tools is no valid JSON', true);
    return;
  }
  question.value = '';
  fitQuestion();
  add({role: 'user', content: text});
  answer();
});

question.addEventListener('input', fitQuestion);
question.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    at('ask').requestSubmit();
  }
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && running) running.abort();
});
at('stop').addEventListener('click', () => running && running.abort());
at('new-chat').addEventListener('click', () => {
  if (running) running.abort();
  cutBefore(0);
  say('A new chat');
  question.focus();
});
at('open-settings').addEventListener('click', () => {
  const settings = at('settings');
  settings.hidden = !settings.hidden;
  at('open-settings').setAttribute('aria-expanded', String(!settings.hidden));
});

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem('theme', theme); } catch { /* A private window keeps nothing. */ }
}
at('theme').addEventListener('click', () => {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  setTheme(dark ? 'light' : 'dark');
});

async function start() {
  try {
    const theme = localStorage.getItem('theme');
    if (theme) setTheme(theme);
  } catch { /* The system's own theme, then. */ }
  question.focus();
  const response = await fetch('/v1/models', {headers: headers()});
  if (!response.ok) {
    say(response.status === 401 ? 'This server needs a key: see Settings' : await problemOf(response), true);
    at('key').addEventListener('change', start, {once: true});
    return;
  }
  const model = (await response.json()).data[0];
  at('model').dataset.id = model.id;
  at('model').textContent = `${model.id} · context ${model.context_length} tokens`;
  say('');
}

start();
