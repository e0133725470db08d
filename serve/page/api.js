// Requests to the server: the API key, errors in words, and server-sent events.

const KEY = "api-key";

export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

export const apiKey = () => sessionStorage.getItem(KEY);

let keyRequest = null;  // one dialog for all requests that wait for a key

// Asks for a key and keeps it until the tab is closed. Returns whether one was given.
export function askForKey() {
  keyRequest ??= new Promise((resolve) => {
    const dialog = document.getElementById("key-dialog");
    const field = document.getElementById("key");
    field.value = "";
    dialog.returnValue = "";
    dialog.querySelector("form").onsubmit = () => sessionStorage.setItem(KEY, field.value.trim());
    document.getElementById("key-cancel").onclick = () => dialog.close("cancel");
    dialog.onclose = () => {
      keyRequest = null;
      resolve(dialog.returnValue !== "cancel" && field.value.trim() !== "");
    };
    dialog.oncancel = () => { dialog.returnValue = "cancel"; };
    dialog.showModal();
  });
  return keyRequest;
}

async function errorOf(response) {
  let message = "";
  try {
    message = (await response.json()).error.message;
  } catch {
    message = `the server answered ${response.status} ${response.statusText}`;
  }
  if (response.status === 429) {
    const seconds = response.headers.get("Retry-After");
    message = `The server is busy${seconds ? `; try again in ${seconds} s` : ""}: ${message}`;
  }
  return new ApiError(message, response.status);
}

// Sends `json` or `form` (POST), or nothing (GET). Throws ApiError, or AbortError by `signal`.
export async function request(path, { json, form, signal } = {}) {
  while (true) {
    const key = apiKey();
    const headers = key ? { Authorization: `Bearer ${key}` } : {};
    if (json) headers["Content-Type"] = "application/json";
    const body = json ? JSON.stringify(json) : form;
    let response;
    try {
      response = await fetch(path, { method: body ? "POST" : "GET", headers, body, signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The server cannot be reached, or it ended the connection");
    }
    if (response.ok) return response;
    if (response.status !== 401) throw await errorOf(response);
    // Another request may have brought a key in the meantime.
    if (apiKey() === key && !(await askForKey())) throw await errorOf(response);
  }
}

// The events of a stream, as objects, up to "[DONE]" or the end.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    while (true) {
      let read;
      try {
        read = await reader.read();
      } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new ApiError("The connection to the server broke");
      }
      text += read.value ?? "";
      const blocks = text.split(/\r?\n\r?\n/);
      text = blocks.pop();
      for (const block of blocks) {
        const data = block.split(/\r?\n/).filter((line) => line.startsWith("data:"))
            .map((line) => line.slice(5).trimStart()).join("\n");
        if (data === "[DONE]") return;
        if (data === "") continue;  // a comment that keeps the connection open
        const event = JSON.parse(data);
        if (event.error) throw new ApiError(event.error.message);
        yield event;
      }
      if (read.done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
