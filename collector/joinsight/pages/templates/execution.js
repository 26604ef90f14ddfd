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
