/* Sign in with what the REST takes: a token, or a name and a password. Kept until this tab is closed. */

import { signIn } from './api.js';
import { fill, h } from './dom.js';

export function showSignIn(root, refusal, done) {
  const token = h('textarea', { id: 'token', rows: 4, autocomplete: 'off', spellcheck: 'false' });
  const user = h('input', { id: 'user', autocomplete: 'username' });
  const password = h('input', { id: 'password', type: 'password', autocomplete: 'current-password' });
  const send = (event, found) => {
    event.preventDefault();
    signIn(found);
    done();
  };
  fill(root, h('section', { class: 'sign-in' },
    h('h1', null, 'Sign in'),
    refusal ? h('p', { class: 'problem', role: 'alert' }, `Refused: ${refusal}`) : null,
    h('form', { on: { submit: (event) => send(event, { token: token.value.trim() }) } },
      h('label', { for: 'token' }, 'Token'), token, h('button', { class: 'main' }, 'Sign in with the token')),
    h('form', { on: { submit: (event) => send(event, { user: user.value, password: password.value }) } },
      h('label', { for: 'user' }, 'User'), user, h('label', { for: 'password' }, 'Password'), password,
      h('button', { class: 'main' }, 'Sign in with the password')),
    h('p', { class: 'muted' }, 'Kept in this tab until it is closed, and sent to this broker only.')));
  token.focus();
}
