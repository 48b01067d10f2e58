package counts

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// maxDays and maxRows are how much a Memory keeps.
const maxDays, maxRows = 31, 2 * MaxDecisions

// A Memory keeps the counts of its process: those of up to 31 days, and fewer if they have
// more than twice MaxDecisions rows. It forgets the oldest day first. Its zero value is empty, and
// ready for use.
type Memory struct {
	mu   sync.Mutex
	days map[Day]Table
}

// AddCounts implements [Store]. It returns no error.
func (m *Memory) AddCounts(_ context.Context, b Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, day := range b.Days {
		m.day(day)
	}
	for _, row := range b.Rows {
		m.day(row.Day).Add(row.Decision, row.Count, MaxDecisions)
	}
	for len(m.days) > maxDays || len(m.days) > 1 && m.rowCount() > maxRows {
		delete(m.days, slices.Min(slices.Collect(maps.Keys(m.days))))
	}
	return nil
}

// rowCount is how many rows there are.
func (m *Memory) rowCount() (n int) {
	for _, t := range m.days {
		n += len(t)
	}
	return n
}

// day returns the table of a day, and makes it if there is none.
func (m *Memory) day(day Day) Table {
	if m.days == nil {
		m.days = map[Day]Table{}
	}
	if m.days[day] == nil {
		m.days[day] = Table{}
	}
	return m.days[day]
}

// Counts implements [Store].
func (m *Memory) Counts(_ context.Context, p Period, do func(Row) error) error {
	for _, row := range m.rows(p) {
		if err := do(row); err != nil {
			return err
		}
	}
	return nil
}

func (m *Memory) rows(p Period) (rows []Row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for day := p.From; day <= p.Until; day++ {
		rows = m.days[day].AppendRows(rows, day)
	}
	return rows
}

// DaysRun implements [Store].
func (m *Memory) DaysRun(_ context.Context, p Period) (days []Day, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for day := range m.days {
		if p.From <= day && day <= p.Until {
			days = append(days, day)
		}
	}
	slices.Sort(days)
	return days, nil
}

// A Table has the counts of one day in memory.
type Table map[Decision]*Count

// Add adds to the count of a decision. If the table does not have it, and has max others, Add
// adds to the count of its [Decision.Rest] and reports false.
func (t Table) Add(d Decision, n Count, max int) (whole bool) {
	count := t[d]
	whole = true
	if count == nil {
		if len(t) >= max {
			d, whole = d.Rest(), false
			count = t[d]
		}
		if count == nil {
			count = new(Count)
			t[d.clone()] = count
		}
	}
	count.Add(n)
	return whole
}

// AppendRows appends the table's rows.
func (t Table) AppendRows(rows []Row, day Day) []Row {
	for d, n := range t {
		rows = append(rows, Row{day, d, *n})
	}
	return rows
}
