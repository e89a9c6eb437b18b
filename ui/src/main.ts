import './route/tenant.ts';
import './design/tokens.css';
import './design/base.css';
import { mount } from 'svelte';
import App from './App.svelte';

// Another version of the server has other files: load the page anew, once.
addEventListener('unhandledrejection', (event) => {
  if (!/module script|imported module/.test(String(event.reason?.message))) return;
  event.preventDefault();
  if (sessionStorage.getItem('punctual-reloaded') !== location.href) {
    sessionStorage.setItem('punctual-reloaded', location.href);
    location.reload();
  }
});

const target = document.getElementById('app');
if (target) mount(App, { target });
