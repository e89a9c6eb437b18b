// Light or dark: what the system says until the user chooses.

class Theme {
  current = $state<'light' | 'dark'>(document.documentElement.dataset.theme === 'dark' ? 'dark' : 'light');

  get other(): 'light' | 'dark' {
    return this.current === 'dark' ? 'light' : 'dark';
  }

  toggle(): void {
    this.current = this.other;
    document.documentElement.dataset.theme = this.current;
    try {
      localStorage.setItem('punctual-theme', this.current);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  }
}

export const theme = new Theme();
