// What pages of other origins can do to the real daemon, in a real browser that is signed in: change
// nothing, read nothing, and open no WebSocket. Every route, in every way a page has.
//
// usage: run.mjs AION CHROMIUM NODE_MODULES

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';

const [aion, executablePath, modules] = process.argv.slice(2);
const { chromium } = createRequire(path.join(modules, 'x.js'))('playwright-core');
const home = fs.mkdtempSync(path.join(os.tmpdir(), 'aion-origins-'));
const SCENARIO = '[[agent."*".rule]]\notherwise = true\nsay = "Read."\n';

const fail = (text) => {
  throw new Error(text);
};

async function daemon() {
  const scenario = path.join(home, 'scenario.toml');
  fs.writeFileSync(scenario, SCENARIO);
  const words = ['serve', '--json', '--port', '0', '--script', scenario];
  const child = spawn(aion, [...words, '--data-dir', path.join(home, 'data')], {
    cwd: home,
    env: { HOME: home, PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const line = await new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (data) => {
      text += data;
      if (text.includes('\n')) resolve(text.split('\n')[0]);
    });
    child.on('exit', () => reject(new Error('the daemon ended')));
  });
  const said = JSON.parse(line);
  return { child, url: said.url, login: said.login_url, token: fs.readFileSync(said.token_file, 'utf8') };
}

async function call(served, method, where, body, more = {}) {
  const headers = { authorization: `Bearer ${served.token}`, ...more };
  if (body !== undefined) headers['content-type'] = 'application/json';
  const answer = await fetch(served.url + where, { method, headers, body: body && JSON.stringify(body) });
  const text = await answer.text();
  return { status: answer.status, text, body: () => JSON.parse(text) };
}

// The whole of what a page could change, and how often the daemon said yes to anybody.
async function state(served, team) {
  const ways = ['/api/teams', '/api/conversations', '/api/approvals', `/api/teams/${team}/state`];
  ways.push(`/api/teams/${team}/events?limit=500`, `/api/teams/${team}/rules`);
  const texts = [];
  for (const way of ways) texts.push((await call(served, 'GET', way)).text);
  return texts.join('\n');
}

async function yeses(served) {
  const text = (await call(served, 'GET', '/metrics')).text;
  const count = (of) => Number(text.match(of)?.[1] ?? fail(`no ${of} in the metrics`));
  return {
    answered: count(/class="2xx"} (\d+)/),
    upgraded: count(/class="1xx"} (\d+)/),
    sockets: count(/aion_websockets (\d+)/),
  };
}

// Runs inside a page. Tries everything on every route, and tells what it got.
async function attack({ base, routes, other }) {
  const got = { readable: [], opened: [], tried: 0 };
  // A document of the daemon that is more than its refusal of this very page.
  const tells = (document) => {
    const text = document?.body?.innerText ?? '';
    return text !== '' && !document.URL.startsWith('about:') && !text.includes('"code":"auth.');
  };
  const within = (promise, ms = 4000) =>
    Promise.race([promise, new Promise((resolve) => setTimeout(() => resolve('late'), ms))]);
  const note = (what, status, text) => {
    if (!(status >= 400) && text !== undefined) got.readable.push(`${what}: ${status} ${String(text).slice(0, 80)}`);
  };
  const body = JSON.stringify({ name: 'evil', text: 'evil', subject: 'evil', decision: 'allow', code: 'x' });
  const request = async (what, where, options) => {
    got.tried += 1;
    try {
      const answer = await within(fetch(base + where, { credentials: 'include', ...options }));
      if (answer !== 'late') note(`${what} ${where}`, answer.type === 'opaque' ? 999 : answer.status, await answer.text());
    } catch {
      // A page that is told nothing is told that it failed.
    }
  };
  for (const { method, where } of routes) {
    const json = { 'content-type': 'application/json' };
    await Promise.all([
      request('simple', where, { method: 'POST', mode: 'no-cors', headers: { 'content-type': 'text/plain' }, body }),
      request('form-like', where, { method: 'POST', mode: 'no-cors', body: new URLSearchParams({ name: 'evil' }) }),
      request('json', where, { method, headers: json, body: method === 'GET' ? undefined : body }),
      request('get', where, {}),
      request('opaque', where, { mode: 'no-cors' }),
      request('csrf', where, { method: 'POST', headers: { ...json, 'x-csrf-token': '0'.repeat(64) }, body }),
    ]);
    got.tried += 1;
    navigator.sendBeacon(base + where, new Blob([body], { type: 'text/plain' }));
  }
  if (!other) return got;
  const loaded = (element, where) =>
    within(
      new Promise((resolve) => {
        got.tried += 1;
        element.onload = () => resolve(element);
        element.onerror = () => resolve('error');
        element.src = base + where;
        document.body.append(element);
      }),
      1500,
    );
  for (const { where } of routes) {
    window.leaked = undefined;
    const [image] = await Promise.all([
      loaded(document.createElement('img'), where),
      loaded(document.createElement('script'), where),
    ]);
    if (image?.naturalWidth > 0) got.readable.push(`img ${where}`);
    got.tried += 1;
    const source = new EventSource(base + where, { withCredentials: true });
    source.onmessage = (event) => got.readable.push(`eventsource ${where}: ${event.data}`);
    source.onopen = () => got.readable.push(`eventsource ${where} opened`);
    setTimeout(() => source.close(), 500);
  }
  // Forms, frames and windows that are sent to every route.
  const frame = document.createElement('iframe');
  frame.name = 'sink';
  document.body.append(frame);
  for (const { where } of routes) {
    for (const enctype of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      got.tried += 1;
      const form = document.createElement('form');
      Object.assign(form, { action: base + where, method: 'post', target: 'sink', enctype });
      const field = document.createElement('input');
      Object.assign(field, { name: '{"text":"evil","x":"', value: '"}' });
      form.append(field);
      document.body.append(form);
      form.submit();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    try {
      if (tells(frame.contentDocument)) got.readable.push(`frame ${where}`);
    } catch {
      // Another origin's document cannot be read.
    }
  }
  const opened = window.open(`${base}/api/teams`);
  got.tried += 1;
  await new Promise((resolve) => setTimeout(resolve, 500));
  try {
    opened?.postMessage('evil', '*');
    if (tells(opened?.document)) got.readable.push('window');
  } catch {
    // Another origin's document cannot be read.
  }
  opened?.close();
  return got;
}

// Runs inside a page: whether a WebSocket opens.
function socket(where) {
  return new Promise((resolve) => {
    const ws = new WebSocket(where);
    ws.onopen = () => resolve(true);
    ws.onerror = () => resolve(false);
    setTimeout(() => resolve(false), 4000);
  });
}

const PAGE = '<!doctype html><meta charset="utf-8"><title>elsewhere</title><body></body>';

async function main() {
  const served = await daemon();
  const elsewhere = http.createServer((request, answer) => {
    answer.setHeader('content-type', 'text/html');
    answer.end(PAGE);
  });
  await new Promise((resolve) => elsewhere.listen(0, '127.0.0.1', resolve));
  const browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--host-resolver-rules=MAP evil.test 127.0.0.1'],
    env: { HOME: home, PATH: process.env.PATH },
  });
  try {
    const context = await browser.newContext({ bypassCSP: true });
    const port = Number(new URL(served.url).port);
    const there = elsewhere.address().port;

    const made = (await call(served, 'POST', '/api/teams', { name: 'watched' })).body();
    await call(served, 'POST', `/api/teams/${made.id}/pause`);
    await call(served, 'POST', `/api/teams/${made.id}/tasks`, { subject: 'kept' });
    const document = (await call(served, 'GET', '/api/openapi.json')).body();
    const routes = [];
    for (const [template, operations] of Object.entries(document.paths)) {
      const where = template
        .replace('{team_id}', made.id)
        .replace('{conversation_id}', made.id)
        .replace('{sha256}', '0'.repeat(64))
        .replace('{request_id}', `${made.id}.r1`)
        .replace(/\{\w+\}/g, '1');
      for (const method of Object.keys(operations)) routes.push({ method: method.toUpperCase(), where });
    }

    // A page of the daemon's own is let in: otherwise nothing below would prove anything.
    const own = await context.newPage();
    await own.goto(served.login);
    const reads = await own.evaluate(async () => (await fetch('/api/teams')).status);
    if (reads !== 200) fail(`the daemon's own page gets ${reads}`);
    if (!(await own.evaluate(socket, `ws://127.0.0.1:${port}/api/ws`))) fail('its own page opens no WebSocket');
    await own.close();

    const file = path.join(home, 'page.html');
    fs.writeFileSync(file, PAGE);
    const base = `http://127.0.0.1:${port}`;
    const cases = [
      { name: 'another port', at: `http://127.0.0.1:${there}/`, base },
      { name: 'another name', at: `http://evil.test:${there}/`, base },
      { name: 'a name that was bound anew', at: `http://evil.test:${port}/`, base: '', rebound: true },
      { name: 'a file', at: `file://${file}`, base },
      { name: 'data', at: `data:text/html,${encodeURIComponent(PAGE)}`, base },
      { name: 'a sandboxed frame', at: `http://127.0.0.1:${there}/`, base, sandboxed: true },
    ];
    let tried = 0;
    const settle = async () => {
      // What pages have sent by beacon may still be on its way: one call more comes after it.
      for (let last = ''; ; ) {
        const now = JSON.stringify(await yeses(served));
        const next = JSON.stringify(await yeses(served));
        if (last !== '' || now !== next) return next;
        last = now;
      }
    };
    for (const one of cases) {
      const page = await context.newPage();
      page.on('dialog', (dialog) => dialog.dismiss());
      if (one.rebound) {
        // The page was loaded before its name was pointed here.
        await page.route(`http://evil.test:${port}/`, (route) =>
          route.fulfill({ contentType: 'text/html', body: PAGE }),
        );
      }
      await page.goto(one.at);
      let target = page;
      if (one.sandboxed) {
        await page.evaluate((html) => {
          const frame = document.createElement('iframe');
          frame.sandbox = 'allow-scripts allow-forms allow-popups';
          frame.srcdoc = html;
          document.body.append(frame);
        }, PAGE);
        await page.waitForSelector('iframe');
        target = await page.waitForFunction(() => true).then(() => page.frames()[1] ?? fail('no frame'));
        await target.waitForLoadState();
      }
      const before = { state: await state(served, made.id), yes: await yeses(served) };
      const got = await target.evaluate(attack, { base: one.base, routes, other: true });
      const host = one.rebound ? `evil.test:${port}` : `127.0.0.1:${port}`;
      const opened = await target.evaluate(socket, `ws://${host}/api/ws`);
      await settle();
      const counted = await yeses(served);
      const after = await state(served, made.id);
      tried += got.tried + 1;
      if (got.readable.length > 0) fail(`${one.name}: a page could read ${got.readable.slice(0, 3).join('; ')}`);
      if (opened || counted.upgraded !== before.yes.upgraded) fail(`${one.name}: a WebSocket opened`);
      if (after !== before.state) fail(`${one.name}: a page changed something`);
      // Every look at the metrics since was ours: all else was refused.
      const looks = counted.answered - before.yes.answered;
      if (looks > 8) fail(`${one.name}: the daemon said yes ${looks} times`);
      await page.close();
      console.log(`  ${one.name}: ${got.tried + 1} tries, all refused`);
    }

    // What a browser says for an extension, which no page can say.
    for (const origin of ['chrome-extension://abcdefghijklmnop', 'moz-extension://x', 'null', 'app://x', '']) {
      const refused = await call(served, 'GET', '/api/teams', undefined, { origin });
      if (refused.status !== 403) fail(`an Origin of ${JSON.stringify(origin)} gets ${refused.status}`);
      tried += 1;
    }
    console.log(`origins: ${cases.length} kinds of pages, ${routes.length} operations, ${tried} tries refused`);
  } finally {
    await browser.close();
    elsewhere.close();
    served.child.kill();
    await new Promise((resolve) => served.child.on('exit', resolve));
    fs.rmSync(home, { recursive: true, force: true });
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
