// Sets the theme that was chosen before anything is painted. It is no module, as those
// run too late for that.
(() => {
  try {
    const theme = localStorage.getItem('tempomat-theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {} // without storage the system's theme has to do
})();
