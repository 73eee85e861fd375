// What hovering, the keyboard and typed coordinates do in an HTML picture. It needs nothing from outside.
//
// Each grid is one stop of the Tab key; the arrow keys, Home and End move within it (a roving tabindex, as the WAI-ARIA
// Authoring Practices describe for grids). Offsets are BigInt: they are exact at any size.
(() => {
  const CELL = '[role=gridcell]';
  const numbers = text => (text === '' ? [] : text.split(',').map(BigInt));

  const worked = (side, at) => {
    const strides = numbers(side.dataset.strides);
    const start = BigInt(side.dataset.start);
    const terms = at.map((x, axis) => `${x}·${strides[axis]}`);
    if (start !== 0n || terms.length === 0) terms.unshift(`${start}`);
    const offset = at.reduce((sum, x, axis) => sum + x * strides[axis], start);
    return { offset, words: `${terms.join(' + ')} = ${offset}` };
  };

  const attach = root => {
    const sides = [...root.querySelectorAll('.sg-side')];
    const cells = [...root.querySelectorAll(CELL)];
    const status = root.querySelector('.sg-status');
    const sideOf = cell => cell.closest('.sg-side');

    const light = wanted => {
      for (const cell of cells) cell.classList.toggle('sg-lit', wanted(cell));
    };

    const lightPlace = (side, offset) => {
      if (sides.length < 2) {
        light(cell => cell.dataset.offset === offset);
        return;
      }
      const written = cells.find(cell => sideOf(cell) === sides[1] && cell.dataset.offset === offset);
      const source = side === sides[0] ? offset : written?.dataset.from;
      light(cell => (sideOf(cell) === sides[0] ? cell.dataset.offset === source
        : cell.dataset.from !== undefined && cell.dataset.from === source)
        || (sideOf(cell) === side && cell.dataset.offset === offset));
    };

    const show = cell => {
      const side = sideOf(cell);
      lightPlace(side, cell.dataset.offset);
      if (cell.dataset.at === undefined) {
        status.textContent = `offset ${cell.dataset.offset}: padding`;
        return;
      }
      const share = Number(cell.dataset.sharers ?? 1);
      const from = cell.dataset.from === undefined ? '' : `, from offset ${cell.dataset.from} of the source`;
      status.textContent = `(${cell.dataset.at}) lies at ${worked(side, numbers(cell.dataset.at)).words}`
        + (share > 1 ? `, shared by ${share}${share >= 999 ? ' or more' : ''} elements` : '') + from;
    };

    const clear = () => {
      light(() => false);
      status.textContent = '';
    };

    const beside = (grid, cell, key) => {
      const all = [...grid.querySelectorAll(CELL)];
      if (key === 'Home') return all[0];
      if (key === 'End') return all[all.length - 1];
      const place = all.indexOf(cell);
      if (key === 'ArrowRight') return all[place + 1];
      if (key === 'ArrowLeft') return all[place - 1];
      const middle = box => box.left + box.width / 2;
      const own = cell.getBoundingClientRect();
      const down = key === 'ArrowDown' ? 1 : -1;
      let best;
      for (const other of all) {
        const box = other.getBoundingClientRect();
        const rows = (box.top - own.top) * down;
        if (rows < 2) continue;
        const distance = [rows, Math.abs(middle(box) - middle(own))];
        const nearer = !best || distance[0] < best.distance[0] - 1
          || (Math.abs(distance[0] - best.distance[0]) <= 1 && distance[1] < best.distance[1]);
        if (nearer) best = { other, distance };
      }
      return best?.other;
    };

    for (const grid of root.querySelectorAll('[role=grid]')) {
      grid.addEventListener('keydown', event => {
        const cell = event.target.closest(CELL);
        const keys = ['ArrowRight', 'ArrowLeft', 'ArrowUp', 'ArrowDown', 'Home', 'End'];
        if (!cell || !keys.includes(event.key) || event.ctrlKey || event.altKey || event.metaKey) return;
        event.preventDefault();
        const next = beside(grid, cell, event.key);
        if (!next) return;
        cell.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      });
    }

    root.addEventListener('focusin', event => {
      const cell = event.target.closest(CELL);
      if (!cell) return;
      for (const other of cell.closest('[role=grid]').querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
      cell.tabIndex = 0;
      show(cell);
    });
    root.addEventListener('pointerover', event => {
      const cell = event.target.closest(CELL);
      if (cell) show(cell);
    });
    root.addEventListener('pointerleave', clear);
    root.addEventListener('keydown', event => {
      if (event.key === 'Escape') clear();
    });

    for (const form of root.querySelectorAll('form')) {
      const side = sideOf(form);
      const input = form.querySelector('input');
      const answer = form.querySelector('output');
      const names = side.dataset.names.split(',');
      const sizes = numbers(side.dataset.sizes);
      form.addEventListener('submit', event => event.preventDefault());
      input.addEventListener('input', () => {
        clear();
        const parts = input.value.trim().split(/[\s,]+/).filter(part => part !== '');
        const fits = parts.every(part => /^-?\d{1,30}$/.test(part));
        const at = fits ? parts.map(BigInt) : [];
        const outside = at.findIndex((x, axis) => axis < sizes.length && (x < 0n || x >= sizes[axis]));
        input.removeAttribute('aria-invalid');
        if (parts.length === 0) {
          answer.textContent = '';
        } else if (!fits || at.length !== sizes.length) {
          answer.textContent = `give ${sizes.length} whole numbers: ${names.join(', ')}`;
          input.setAttribute('aria-invalid', 'true');
        } else if (outside >= 0) {
          answer.textContent = `${names[outside]} = ${at[outside]} is outside 0 to ${sizes[outside] - 1n}`;
          input.setAttribute('aria-invalid', 'true');
        } else {
          const { offset, words } = worked(side, at);
          const bytes = Number(side.dataset.itemsize);
          const drawn = cells.some(cell => sideOf(cell) === side && cell.dataset.offset === `${offset}`);
          answer.textContent = words + (bytes > 1 ? `, byte ${offset * BigInt(bytes)}` : '')
            + (drawn ? '' : ' (left out of the picture)');
          lightPlace(side, `${offset}`);
        }
      });
    }
  };

  for (const root of document.querySelectorAll('.sg-picture:not([data-live])')) {
    root.dataset.live = '';
    attach(root);
  }
})();
