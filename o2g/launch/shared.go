// SPDX-License-Identifier: MIT

package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// CheckShared reports that this user cannot create files in the folder of POSIX shared
// memory, without which MPICH starts no rank. O2G and Open MPI need none.
func CheckShared(folder string) error {
	file, err := os.CreateTemp(folder, "skep-check-")
	if err == nil {
		file.Close()
		return os.Remove(file.Name())
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("no file can be created in %s (%w)", folder, err)
}
