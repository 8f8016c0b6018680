// The buttons of actions, the dialog that asks about one, and the notices about what was done.
import { useEffect, useLayoutEffect, useRef, useState } from './vendor/hooks.js';
import { ACTIONS, asking, begin, dismiss, notices, perform, permitted } from './actions.js';
import { read } from './api.js';
import { html } from './html.js';

/// The buttons of the actions that the state of a record permits, or of those that are named, without `except`.
export function Actions({ on, of: record, only, except, context }) {
  return permitted(on, record, context).filter((id) => (!only || only.includes(id)) && id !== except).map((id) => html`
    <button type="button" key=${id} data-action=${id} onClick=${() => begin(id, record)}>${ACTIONS[id].name}</button>`);
}

/// A refusal in the server's words: those that the command line prints.
export const Refusal = ({ error }) => html`<div class="refusal" role="alert"><strong>${error.message}</strong>
  ${(error.hints ?? []).map((hint) => html`<div key=${hint}>hint: ${hint}</div>`)}</div>`;

/// The form of one action.
function useForm(id, record, close) {
  const action = ACTIONS[id];
  const [fields] = useState(() => action.fields?.(record) ?? []);
  const [values, setValues] = useState(() => Object.fromEntries(fields.map(({ name, value, type }) => [name, value ?? (type === 'check' ? false : '')])));
  const [state, setState] = useState({});
  const set = (name) => (event) => {
    const { type, checked, value } = event.target;
    setValues((before) => ({ ...before, [name]: type === 'checkbox' ? checked : value }));
  };
  const submit = async (event) => {
    event.preventDefault();
    setState({ isBusy: true });
    try {
      await perform(id, record, values);
      setState({});
      close();
    } catch (error) {
      setState({ error });
    }
  };
  return { fields, values, set, submit, ...state };
}

function FieldOf({ field, value, onInput }) {
  const { name, label, type, options, suggestions, suggestFrom, isRequired } = field;
  const [found, setFound] = useState(suggestions);
  const id = `field-${name}`;
  useEffect(() => {
    if (suggestFrom) read(suggestFrom, { limit: 1000 }).then(({ data }) => setFound(data.map((one) => one.name)), () => {});
  }, [suggestFrom]);
  const common = { id, name, value, onInput, required: isRequired };
  if (type === 'check') return html`<p class="wide"><label><input type="checkbox" id=${id} checked=${value} onChange=${onInput}/> ${label}</label></p>`;
  return html`<p class=${type === 'area' || name === 'title' || name === 'reason' ? 'wide' : ''}><label for=${id}>${label}</label>
    ${type === 'area' && html`<textarea rows="4" ...${common}/>`}
    ${options && html`<select ...${common} onChange=${onInput}>${options.map(([key, text]) => html`
      <option value=${key} selected=${key === value}>${text}</option>`)}</select>`}
    ${type !== 'area' && !options && html`<input type=${type ?? 'text'} autocomplete="off" list=${found && `${id}-list`} ...${common}/>`}
    ${found && html`<datalist id="${id}-list">${found.map((one) => html`<option value=${one}/>`)}</datalist>`}</p>`;
}

/// The dialog that asks for the fields of an action, or whether to do it.
export function Dialog() {
  const asked = asking.value;
  return asked && html`<${Asking} key=${asked.number} asked=${asked}/>`;
}

function Asking({ asked }) {
  const { id, record } = asked;
  const dialog = useRef();
  // The browser reports a closed dialog later: the next one may be open by then.
  const close = () => { if (asking.value === asked) asking.value = null; };
  const { fields, values, set, submit, error, isBusy } = useForm(id, record, () => dialog.current?.close());
  const action = ACTIONS[id];
  const question = action.confirm?.(record);
  // Before the next event: a click that follows at once must not reach the page below.
  useLayoutEffect(() => {
    dialog.current.showModal();
    // Where work could be lost, Enter must not do it by mistake.
    const first = question ? '[data-dismiss]' : 'input, textarea, select';
    (dialog.current.querySelector(first) ?? dialog.current.querySelector('[data-dismiss]')).focus();
  }, []);
  const subject = record.title ?? record.name ?? record.id;
  return html`<dialog ref=${dialog} class="ask" aria-labelledby="ask-title" onClose=${close}>
    <form onSubmit=${submit}>
      <h1 id="ask-title">${action.name}${subject && html` <span class="dim">${subject}</span>`}</h1>
      ${question && html`<p class="text">${question}</p>`}
      ${action.about && html`<p class="text dim">${action.about(record)}</p>`}
      <div class="fields">${fields.map((field) => html`<${FieldOf} key=${field.name} field=${field} value=${values[field.name]} onInput=${set(field.name)}/>`)}</div>
      ${error && html`<${Refusal} error=${error}/>`}
      <p class="actions"><button class=${question ? 'risky' : 'main'} disabled=${isBusy}>${action.name}</button>
        <button type="button" data-dismiss onClick=${() => dialog.current.close()}>Back</button></p>
    </form></dialog>`;
}

/// A form in the page for an action with one text.
export function InlineAction({ id, of: record }) {
  const { fields: [field], values, set, submit, error, isBusy } = useInline(id, record);
  if (!permitted(ACTIONS[id].on, record).includes(id)) return null;
  return html`<form class="inline" onSubmit=${submit}>
    <input aria-label=${field.label} placeholder=${field.label} required value=${values[field.name]} onInput=${set(field.name)}/>
    <button class="main" disabled=${isBusy}>${ACTIONS[id].name}</button>
    ${error && html`<${Refusal} error=${error}/>`}</form>`;
}

function useInline(id, record) {
  const form = useForm(id, record, () => form.fields.forEach(({ name }) => form.set(name)({ target: { value: '' } })));
  return form;
}

/// What was done, with Undo where there is an inverse, and what was refused.
export const Notices = () => html`<div class="notices" role="status" aria-label="Notices">${notices.value.map((notice) => html`
  <div class="notice">
    ${notice.error ? html`<${Refusal} error=${notice.error}/>` : html`<span class="text">${notice.text}
      ${(notice.warnings ?? []).map((warning) => html`<span class="dim" key=${warning}> ${warning}</span>`)}</span>`}
    ${notice.undo && html`<button type="button" onClick=${notice.undo}>Undo</button>`}
    <button type="button" class="plain-button" aria-label="Dismiss" onClick=${() => dismiss(notice)}>✕</button>
  </div>`)}</div>`;
