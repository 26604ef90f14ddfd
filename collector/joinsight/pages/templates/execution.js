'use strict'
{
  const one = (selector, inside = document) => inside.querySelector(selector)

  // Copies the link to a node; without a clipboard the link is an ordinary one.
  document.addEventListener('click', async event => {
    const link = event.target.closest('a.copy')
    if (!link || !navigator.clipboard) return
    event.preventDefault()
    try {
      await navigator.clipboard.writeText(link.href)
      link.textContent = 'Link copied'
    } catch {
      location.assign(link.href)
    }
  })

  // Opens the drawing at the operator that the verdict is about.
  const open = () => {
    const drawing = one('[data-opens-at]')
    const box = drawing && !location.hash && document.getElementById(drawing.dataset.opensAt)
    if (!box) return
    const [whole, part] = [drawing.getBoundingClientRect(), box.getBoundingClientRect()]
    drawing.scrollBy({
      left: part.left + part.width / 2 - whole.left - whole.width / 2,
      top: part.top + part.height / 2 - whole.top - whole.height / 2,
      behavior: 'instant'
    })
  }
  open()

  // Shows on the map which part of the plan is visible.
  const mark = () => {
    const here = one('.map .here'), plan = one('svg.plan')
    if (!here || !plan) return
    const all = plan.getBoundingClientRect(), part = plan.parentElement.getBoundingClientRect()
    const map = here.ownerSVGElement.viewBox.baseVal
    const left = Math.max(all.left, part.left, 0), right = Math.min(all.right, part.right, innerWidth)
    const top = Math.max(all.top, part.top, 0), bottom = Math.min(all.bottom, part.bottom, innerHeight)
    here.setAttribute('x', (left - all.left) / all.width * map.width)
    here.setAttribute('y', (top - all.top) / all.height * map.height)
    here.setAttribute('width', Math.max(0, right - left) / all.width * map.width)
    here.setAttribute('height', Math.max(0, bottom - top) / all.height * map.height)
  }
  document.addEventListener('scroll', mark, { capture: true, passive: true })
  addEventListener('resize', mark)
  mark()

  // Zooms the drawing around a point of the screen.
  const LEAST = 0.1, MOST = 3
  const zoom = (drawing, factor, x, y) => {
    const plan = one('svg.plan', drawing), full = plan.viewBox.baseVal, box = plan.getBoundingClientRect()
    const width = Math.min(MOST * full.width, Math.max(LEAST * full.width, box.width * factor)), by = width / box.width
    plan.classList.remove('fit')
    plan.setAttribute('width', width)
    plan.setAttribute('height', full.height * width / full.width)
    drawing.scrollBy({ left: (x - box.left) * (by - 1), top: (y - box.top) * (by - 1), behavior: 'instant' })
    mark()
  }
  document.addEventListener('wheel', event => {
    const drawing = event.target.closest?.('.drawing')
    if (!drawing || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    zoom(drawing, Math.exp(-event.deltaY / 300), event.clientX, event.clientY)
  }, { passive: false })

  // Moves the drawing with the mouse, and zooms it with two fingers; what ends a drag is no click.
  const down = new Map()
  let dragged = 0
  const distance = ([a, b]) => Math.hypot(a.x - b.x, a.y - b.y)
  document.querySelectorAll('.drawing').forEach(each => each.classList.add('live'))
  document.addEventListener('pointerdown', event => {
    const drawing = event.target.closest('.drawing')
    if (!drawing || event.button) return
    down.set(event.pointerId, { x: event.clientX, y: event.clientY, drawing })
    dragged = 0
  })
  document.addEventListener('pointermove', event => {
    const last = down.get(event.pointerId)
    if (!last) return
    const before = distance([...down.values(), last])
    const [x, y] = [event.clientX - last.x, event.clientY - last.y]
    Object.assign(last, { x: event.clientX, y: event.clientY })
    if (down.size === 2) {
      const [a, b] = [...down.values()]
      if (before) zoom(last.drawing, distance([a, b]) / before, (a.x + b.x) / 2, (a.y + b.y) / 2)
    } else if (event.pointerType === 'mouse') {
      last.drawing.scrollBy({ left: -x, top: -y, behavior: 'instant' })
    }
    dragged += Math.abs(x) + Math.abs(y)
  })
  for (const end of ['pointerup', 'pointercancel']) document.addEventListener(end, event => down.delete(event.pointerId))
  document.addEventListener('dragstart', event => { if (event.target.closest?.('.drawing')) event.preventDefault() })
  document.addEventListener('click', event => {
    if (dragged > 5 && event.target.closest('.drawing')) event.preventDefault()
    dragged = 0
  }, { capture: true })

  // Loads the page of a running execution again, in place, until the execution has ended.
  const isBusy = () => document.hidden || !getSelection().isCollapsed || document.activeElement.matches('input')
  const replace = fresh => {
    const old = one('main'), made = one('main', fresh)
    const focused = document.activeElement.id
    const scrolled = [...old.querySelectorAll('.scroll, .beside, pre')].map(each => [each.scrollLeft, each.scrollTop])
    const open = new Map([...old.querySelectorAll('details')].map(each => [one('summary', each).textContent, each.open]))
    old.replaceWith(made)
    document.title = fresh.title
    made.querySelectorAll('details').forEach(each => { each.open = open.get(one('summary', each).textContent) ?? each.open })
    made.querySelectorAll('.scroll, .beside, pre').forEach((each, i) => each.scrollTo(...(scrolled[i] ?? [0, 0])))
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true })
    mark()
  }
  const follow = () => {
    const seconds = one('[data-refresh]')?.dataset.refresh
    if (seconds) setTimeout(async () => {
      try {
        const answer = isBusy() ? null : await fetch(location.href, { cache: 'no-store' })
        if (answer?.ok) replace(new DOMParser().parseFromString(await answer.text(), 'text/html'))
      } catch { /* the collector cannot be reached now: the page says when it was updated */ }
      follow()
    }, seconds * 1000)
  }
  follow()
}
