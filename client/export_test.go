package client

// ReadAck gives tests what a publisher makes of an answer, and whether it would
// try again.
func ReadAck(data []byte, stream string) (again bool, err error) {
	err = readAck(data, stream)
	_, again = err.(*transientError) //nolint:errorlint // the outermost is what counts
	return again, err
}

// Pages gives tests the walk over a listing.
var Pages = pages[int]
